// Before the first paint: light or dark as chosen here, else as the system has it. Mantine goes on from there.
(function () {
  var chosen = null;
  try {
    chosen = window.localStorage.getItem('mantine-color-scheme-value');
  } catch {
    // No storage, then as the system has it.
  }
  var dark = chosen === 'dark' || (chosen !== 'light' && window.matchMedia('(prefers-color-scheme: dark)').matches);
  document.documentElement.setAttribute('data-mantine-color-scheme', dark ? 'dark' : 'light');
})();
