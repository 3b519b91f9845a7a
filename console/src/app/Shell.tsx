/** What stands around every page: the navigation, or on a phone a bar with it in a drawer; and the sign-in before it. */
import { ActionIcon, Drawer, Kbd, Modal, Table } from '@mantine/core';
import { IconMenu2 } from '@tabler/icons-react';
import { Suspense, useCallback, useEffect, useRef, useState } from 'react';
import { Link, Outlet, useLocation, useNavigation } from 'react-router';

import { Loading, Problem } from '../parts/states';
import { useSession } from '../session/load';
import { SignIn } from '../session/SignIn';
import { Mark } from './Mark';
import { Nav, useVisibleParts } from './Nav';
import css from './shell.module.css';
import { useJumps } from './useJumps';

export function Shell() {
  const session = useSession();
  if (session.data === null) return <SignIn />;
  if (session.data !== undefined) return <Frame key={session.data.account_id} />;
  return (
    <main style={{ maxWidth: 480, margin: '20vh auto', padding: 16 }}>
      {session.error === null ? <Loading rows={3} /> : <Problem error={session.error} retry={session.refetch} />}
    </main>
  );
}

function Frame() {
  const parts = useVisibleParts();
  const [keysShown, showKeys] = useState(false);
  const [menuShown, showMenu] = useState(false);
  const help = useCallback(() => showKeys(true), []);
  useJumps(parts, help);
  const main = useFocusOnPage();
  const busy = useNavigation().state === 'loading';
  const nav = <Nav onKeys={help} onLeave={() => showMenu(false)} />;
  return (
    <div className={css.shell}>
      <a className={css.skip} href="#main">
        Skip to the page
      </a>
      {nav}
      <div className={css.top}>
        <Link to="/" style={{ color: 'inherit', textDecoration: 'none' }} aria-label="Ebbtide, overview">
          <Mark />
        </Link>
        <ActionIcon variant="subtle" color="gray" size="lg" aria-label="Open the navigation" onClick={() => showMenu(true)}>
          <IconMenu2 size={20} />
        </ActionIcon>
      </div>
      <main id="main" className={css.main} tabIndex={-1} ref={main} aria-busy={busy}>
        <Suspense fallback={<Loading />}>
          <Outlet />
        </Suspense>
      </main>
      <Drawer opened={menuShown} onClose={() => showMenu(false)} size={270} hiddenFrom="sm" classNames={{ body: css.drawer }}>
        {menuShown && nav}
      </Drawer>
      <Modal opened={keysShown} onClose={() => showKeys(false)} title="Keyboard">
        <Keys parts={parts} />
      </Modal>
    </div>
  );
}

function Keys(props: { parts: ReturnType<typeof useVisibleParts> }) {
  const jumps = props.parts.flatMap((part) => part.places.map((place) => [['g', place.key], place.label] as const));
  const rows: readonly (readonly [readonly string[], string])[] = [
    [['/'], 'Search this page'],
    [['Esc'], 'Empty the search, close what is open'],
    [['?'], 'This list'],
    ...jumps,
  ];
  return (
    <Table withRowBorders={false} verticalSpacing={5} fz="sm">
      <Table.Tbody>
        {rows.map(([keys, what]) => (
          <Table.Tr key={what}>
            <Table.Td w={110}>
              {keys.map((key) => (
                <Kbd key={key} mr={4}>
                  {key}
                </Kbd>
              ))}
            </Table.Td>
            <Table.Td>{what}</Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}

/** A new page is read from its beginning: by the eye, and by whoever hears it. */
function useFocusOnPage() {
  const main = useRef<HTMLElement>(null);
  const { pathname } = useLocation();
  const before = useRef(pathname);
  useEffect(() => {
    if (before.current === pathname) return;
    before.current = pathname;
    window.scrollTo(0, 0);
    main.current?.focus({ preventScroll: true });
  }, [pathname]);
  return main;
}
