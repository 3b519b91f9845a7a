/** The name of the product with its sign: water that comes and goes. */
export function Mark() {
  return (
    <span style={{ display: 'inline-flex', alignItems: 'center', gap: 9, fontWeight: 650, fontSize: 16, letterSpacing: '-0.01em' }}>
      <svg width="22" height="22" viewBox="0 0 32 32" aria-hidden>
        <rect width="32" height="32" rx="8" fill="#0b6b84" />
        <path d="M6 12.500c3.300-3.400 6.700-3.400 10 0s6.700 3.400 10 0M6 20.500c3.300-3.400 6.700-3.400 10 0" fill="none" stroke="#fff" strokeWidth="2.6" strokeLinecap="round" />
      </svg>
      Ebbtide
    </span>
  );
}
