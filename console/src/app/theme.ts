/** The design tokens: colours, type, radii, and the defaults of Mantine's components. Nothing else names a colour. */
import { type CSSVariablesResolver, createTheme, type MantineColorsTuple } from '@mantine/core';

const tide: MantineColorsTuple = [
  '#e8f5f8', '#d0e9f0', '#a4d3e0', '#72bbcf', '#49a6bf', '#2893af', '#0f7d99', '#0b6b84', '#09566b', '#063f50',
];
const gray: MantineColorsTuple = [
  '#f6f8f9', '#eef2f4', '#e3e9ec', '#d4dce1', '#b7c3cb', '#86959f', '#586772', '#434f59', '#2b353e', '#17212a',
];
const dark: MantineColorsTuple = [
  '#dbe4ea', '#b7c4cd', '#93a3af', '#617380', '#33424c', '#25313a', '#1a242b', '#11181d', '#0c1216', '#080c0f',
];

export const theme = createTheme({
  colors: { tide, gray, dark },
  primaryColor: 'tide',
  primaryShade: { light: 7, dark: 6 },
  black: '#17212a',
  fontFamily: 'Inter, ui-sans-serif, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif',
  fontFamilyMonospace: 'ui-monospace, "SF Mono", "JetBrains Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace',
  fontSizes: { xs: '12px', sm: '13px', md: '14px', lg: '16px', xl: '20px' },
  headings: { fontWeight: '600', sizes: { h1: { fontSize: '20px', lineHeight: '28px' }, h2: { fontSize: '15px', lineHeight: '22px' }, h3: { fontSize: '13px', lineHeight: '20px' } } },
  defaultRadius: 6,
  cursorType: 'pointer',
  respectReducedMotion: true,
  components: {
    InputWrapper: { styles: { label: { fontWeight: 500, marginBottom: 4 } } },
    SegmentedControl: { styles: { label: { fontWeight: 500 } } },
    Button: { defaultProps: { size: 'sm' } },
    TextInput: { defaultProps: { size: 'sm' } },
    PasswordInput: { defaultProps: { size: 'sm' } },
    NumberInput: { defaultProps: { size: 'sm' } },
    Select: { defaultProps: { size: 'sm' } },
    Tooltip: { defaultProps: { openDelay: 250, fz: 'xs', events: { hover: true, focus: true, touch: true } } },
    Modal: { defaultProps: { centered: true, radius: 10, overlayProps: { backgroundOpacity: 0.4 }, closeButtonProps: { 'aria-label': 'Close' } } },
    Drawer: { defaultProps: { closeButtonProps: { 'aria-label': 'Close' } } },
    Menu: { defaultProps: { shadow: 'md', radius: 8 } },
  },
});

/** What Mantine has no word for. `--tone-*` are text-safe on the page in their scheme (WCAG AA). */
export const tokens: CSSVariablesResolver = () => ({
  variables: { '--nav-width': '216px', '--page-width': '1240px' },
  light: {
    '--mantine-color-dimmed': gray[6],
    '--surface-nav': gray[0],
    '--surface-raised': '#ffffff',
    '--surface-sunken': gray[0],
    '--surface-hover': gray[1],
    '--line': gray[2],
    '--accent': tide[7],
    '--accent-soft': tide[0],
    '--tone-active': tide[7],
    '--tone-good': '#1d7a4c',
    '--tone-warn': '#946200',
    '--tone-bad': '#b3362b',
    '--tone-quiet': gray[6],
    '--fill-active': tide[5],
    '--fill-good': '#35a36c',
    '--fill-bad': '#d9604f',
    '--fill-warn': '#dba23a',
    '--fill-quiet': gray[4],
    '--fill-rest': gray[2],
    '--fill-batch': '#7a5cc9',
  },
  dark: {
    '--mantine-color-dimmed': dark[2],
    '--mantine-color-placeholder': dark[2],
    '--surface-nav': dark[8],
    '--surface-raised': dark[6],
    '--surface-sunken': dark[8],
    '--surface-hover': dark[6],
    '--line': dark[5],
    '--accent': tide[3],
    '--accent-soft': '#12303a',
    '--tone-active': tide[3],
    '--tone-good': '#5cc892',
    '--tone-warn': '#e0b050',
    '--tone-bad': '#f08a7b',
    '--tone-quiet': dark[2],
    '--fill-active': tide[4],
    '--fill-good': '#3fae78',
    '--fill-bad': '#d9604f',
    '--fill-warn': '#c9922f',
    '--fill-quiet': dark[3],
    '--fill-rest': dark[5],
    '--fill-batch': '#a58bea',
  },
});
