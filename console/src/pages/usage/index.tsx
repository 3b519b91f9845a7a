import { Page } from '../../parts/Page';
export function Component() { return <Page title="Soon">x</Page>; }
