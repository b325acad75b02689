/** What stands around every page: the navigation, the organization, and whether the page is live. */
import type { ComponentType } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { answerOf, api } from './api/client';
import { useLiveState } from './api/live';
import { useQuery } from './api/query';
import { session, setSession } from './api/session';
import type { Me, PageProps } from './page';
import { Calls } from './pages/calls';
import { Overview } from './pages/overview';
import { usePlace } from './route';
import { Empty, Head, Loading, Problem } from './ui/parts';
import { State } from './ui/state';
import { Brief, brief } from './ui/text';
import { viewerZone } from './ui/time';

type Page = ComponentType<PageProps>;

/** A page that is loaded when it is opened first. */
function later(load: () => Promise<Page>): Page {
  let loaded: Page | null = null;
  return function Later(props: PageProps) {
    const [Loaded, setLoaded] = useState<{ page: Page } | null>(loaded && { page: loaded });
    const [error, setError] = useState<Error | null>(null);
    useEffect(() => {
      if (loaded) return;
      load().then(
        (page) => {
          loaded = page;
          setLoaded({ page });
        },
        () => setError(new Error('This page could not be loaded. Check the connection, then load it again.')),
      );
    }, []);
    if (error) return <Problem error={error} onRetry={() => location.reload()} />;
    return Loaded ? <Loaded.page {...props} /> : <Loading />;
  };
}

const CallDetail = later(() => import('./pages/call').then((file) => file.CallPage));
const Endpoints = later(() => import('./pages/endpoints').then((file) => file.Endpoints));
const Numbers = later(() => import('./pages/numbers').then((file) => file.Numbers));
const Trunks = later(() => import('./pages/trunks').then((file) => file.Trunks));
const Keys = later(() => import('./pages/access').then((file) => file.Keys));
const Members = later(() => import('./pages/access').then((file) => file.Members));
const Deliveries = later(() => import('./pages/deliveries').then((file) => file.Deliveries));
const TryIt = later(() => import('./pages/try').then((file) => file.TryIt));
const Reference = later(() => import('./pages/reference').then((file) => file.Reference));
const Organization = later(() => import('./pages/organization').then((file) => file.OrganizationPage));

const groups: { title: string; pages: { path: string; title: string; page: Page }[] }[] = [
  {
    title: 'Calls',
    pages: [
      { path: '', title: 'Overview', page: Overview },
      { path: 'calls', title: 'Calls', page: Calls },
      { path: 'try', title: 'Try it', page: TryIt },
    ],
  },
  {
    title: 'Routing',
    pages: [
      { path: 'endpoints', title: 'Endpoints', page: Endpoints },
      { path: 'numbers', title: 'Phone numbers', page: Numbers },
      { path: 'trunks', title: 'Trunks', page: Trunks },
      { path: 'deliveries', title: 'Webhook deliveries', page: Deliveries },
    ],
  },
  {
    title: 'Organization',
    pages: [
      { path: 'organization', title: 'Limits and balance', page: Organization },
      { path: 'members', title: 'Members', page: Members },
      { path: 'keys', title: 'API keys', page: Keys },
      { path: 'reference', title: 'API reference', page: Reference },
    ],
  },
];
const pages = new Map(groups.flatMap((group) => group.pages).map((page) => [page.path, page]));

export function Frame() {
  const place = usePlace();
  const [isOpen, setOpen] = useState(false);
  const main = useRef<HTMLElement>(null);
  const me = useQuery('me', (signal) => answerOf(api.GET('/v1/me', { signal })));
  const name = place.path[0] ?? '';
  const known = pages.get(name);
  const Page = name === 'calls' && place.path[1] ? CallDetail : known?.page;
  const where = place.path.join('/');
  useEffect(() => {
    document.title = known ? `${known.title} – Trunkline` : 'Trunkline';
    setOpen(false);
    scrollTo(0, 0);
    if (document.activeElement !== document.body) main.current?.focus({ preventScroll: true });
  }, [where, known]);

  return (
    <div class="frame">
      <a
        class="skip"
        href={`#/${where}`}
        onClick={(event) => {
          event.preventDefault();
          main.current?.focus();
        }}
      >
        To the content
      </a>
      <aside class="side" data-open={String(isOpen)}>
        <div class="side-top">
          <a class="brand" href="#/">
            Trunkline
          </a>
          <button type="button" class="menu-button" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
            Menu
          </button>
        </div>
        <nav aria-label="Pages">
          {groups.map(({ title, pages }) => (
            <div key={title}>
              <h2>{title}</h2>
              <ul>
                {pages.map((page) => (
                  <li key={page.path}>
                    <a href={`#/${page.path}`} aria-current={page.path === name ? 'page' : undefined}>
                      {page.title}
                    </a>
                  </li>
                ))}
              </ul>
            </div>
          ))}
        </nav>
        <footer>
          {me.data && <Who me={me.data as Me} />}
          <Live />
          <div>
            <button type="button" class="link" onClick={() => setSession(null)}>
              Sign out
            </button>
          </div>
        </footer>
      </aside>
      <main class="main" ref={main} tabIndex={-1}>
        {me.error && !me.data && <Head title="This page cannot be shown" />}
        {me.error && <Problem error={me.error} onRetry={me.reload} />}
        {me.data && Page && <Page key={where} place={place} me={me.data as Me} />}
        {me.data && !Page && (
          <>
            <Head title="There is no such page" />
            <Empty title="The link may be old, or not complete">
              <a href="#/">To the overview</a>
            </Empty>
          </>
        )}
        {!me.data && !me.error && <Loading />}
      </main>
    </div>
  );
}

function Live() {
  const state = useLiveState();
  return (
    <small role="status" title={`Times are in ${viewerZone}; point at one to see it in UTC.`}>
      {state === 'live' && <State of="healthy" word="Live" />}
      {state === 'connecting' && <State of="unknown" word="Connecting" />}
      {state === 'interrupted' && <State of="degraded" word="Interrupted, trying again" />}
    </small>
  );
}

function Who({ me }: { me: Me }) {
  const { organization, organizations, mode, role } = me;
  return (
    <div class="stack tight">
      {organizations.length > 1 ? (
        <div class="field">
          <label for="organization">
            <small>Organization</small>
          </label>
          <select
            id="organization"
            value={organization.id}
            onChange={(event) => {
              const current = session();
              if (current) setSession({ ...current, organizationId: event.currentTarget.value });
            }}
          >
            {organizations.map(({ id, name }) => (
              <option key={id} value={id}>
                {brief(name)}
              </option>
            ))}
          </select>
        </div>
      ) : (
        <strong>
          <Brief text={organization.name} limit={60} />
        </strong>
      )}
      <small>
        {role}, {mode} records
      </small>
    </div>
  );
}
