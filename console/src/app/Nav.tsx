/** The side navigation: places by what the account may see, and the account's own menu at its foot. */
import { Menu, Text, UnstyledButton, useMantineColorScheme } from '@mantine/core';
import { IconDeviceDesktop, IconKeyboard, IconLogout, IconMoon, IconSelector, IconSun, IconUserCircle } from '@tabler/icons-react';
import { Fragment } from 'react';
import { Link, NavLink } from 'react-router';

import { useCapabilities, useSignedIn, useSignOut } from '../session/load';
import { isAdmin } from '../session/wire';
import { Mark } from './Mark';
import { visibleParts } from './nav';
import css from './shell.module.css';

export function useVisibleParts() {
  const session = useSignedIn();
  const capabilities = useCapabilities();
  // Unknown for the moment: the link stays, and the page says what is the matter.
  const batches = capabilities.data?.show_entry ?? capabilities.isError;
  return visibleParts({ batches, admin: isAdmin(session) });
}

export function Nav(props: { onKeys: () => void; onLeave: () => void }) {
  const parts = useVisibleParts();
  return (
    <nav className={css.nav} aria-label="Console">
      <Link to="/" className={css.brand} onClick={props.onLeave} aria-label="Ebbtide, overview">
        <Mark />
      </Link>
      {parts.map((part) => (
        <Fragment key={part.label ?? ''}>
          {part.label !== null && <div className={css.partLabel}>{part.label}</div>}
          {part.places.map(({ to, label, icon: Icon }) => (
            <NavLink key={to} to={to} end={to === '/' || to === '/admin'} className={css.place} onClick={props.onLeave}>
              <Icon size={16} stroke={1.8} aria-hidden />
              {label}
            </NavLink>
          ))}
        </Fragment>
      ))}
      <div className={css.foot}>
        <AccountMenu onKeys={props.onKeys} onLeave={props.onLeave} />
      </div>
    </nav>
  );
}

const SCHEMES = [
  { value: 'auto', label: 'As the system', icon: IconDeviceDesktop },
  { value: 'light', label: 'Light', icon: IconSun },
  { value: 'dark', label: 'Dark', icon: IconMoon },
] as const;

function AccountMenu(props: { onKeys: () => void; onLeave: () => void }) {
  const session = useSignedIn();
  const signOut = useSignOut();
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  return (
    <Menu position="top-start" width={200}>
      <Menu.Target>
        <UnstyledButton className={css.account}>
          <span className="visually-hidden">Account</span>
          <span style={{ flex: 1, minWidth: 0 }}>
            <Text size="sm" fw={500} truncate>
              {session.name}
            </Text>
            <Text size="xs" c="dimmed">
              {session.role}
            </Text>
          </span>
          <IconSelector size={14} aria-hidden />
        </UnstyledButton>
      </Menu.Target>
      <Menu.Dropdown>
        {SCHEMES.map(({ value, label, icon: Icon }) => (
          <Menu.Item key={value} leftSection={<Icon size={14} />} fw={colorScheme === value ? 600 : 400} onClick={() => setColorScheme(value)}>
            {label}
          </Menu.Item>
        ))}
        <Menu.Divider />
        <Menu.Item component={Link} to="/account" onClick={props.onLeave} leftSection={<IconUserCircle size={14} />}>
          Your account
        </Menu.Item>
        <Menu.Item leftSection={<IconKeyboard size={14} />} onClick={props.onKeys}>
          Keyboard
        </Menu.Item>
        <Menu.Item leftSection={<IconLogout size={14} />} onClick={() => signOut.mutate()}>
          Sign out
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
