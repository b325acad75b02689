/** Debian's Chromium, without a window, on pages of the dashboard. */
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { type Browser, chromium, type Page } from 'playwright-core';

const programs = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

export async function openBrowser(): Promise<Browser> {
  const executablePath = programs.find((file) => existsSync(file));
  if (!executablePath) throw new Error('No Chromium is installed (apt-get install chromium).');
  return chromium.launch({
    executablePath,
    args: ['--no-sandbox', '--disable-gpu', '--mute-audio', '--autoplay-policy=no-user-gesture-required'],
  });
}

export interface WatchedPage {
  page: Page;
  /** What the page complained about: errors, and violations of its content security policy. */
  complaints: string[];
  /** Hosts other than ours that the page asked for something. */
  strangers: string[];
}

/** A page, signed in with the key unless there is none. */
export async function openPage(
  browser: Browser,
  baseUrl: string,
  { key, width = 1280, scheme = 'light' }: { key?: string; width?: number; scheme?: 'light' | 'dark' } = {},
): Promise<WatchedPage> {
  const context = await browser.newContext({
    viewport: { width, height: 860 },
    colorScheme: scheme,
    acceptDownloads: true,
  });
  context.setDefaultTimeout(15_000);
  if (key)
    await context.addInitScript({
      content: `sessionStorage.setItem('trunkline.session', ${JSON.stringify(JSON.stringify({ token: key }))})`,
    });
  const page = await context.newPage();
  const complaints: string[] = [];
  const strangers: string[] = [];
  page.on('pageerror', (error) => complaints.push(`${error.message}`));
  page.on('console', (message) => {
    if (/Content Security Policy|Refused to/i.test(message.text())) complaints.push(message.text());
  });
  page.on('request', (request) => {
    const url = new URL(request.url());
    if (/^https?:$/.test(url.protocol) && url.origin !== new URL(baseUrl).origin) strangers.push(request.url());
  });
  return { page, complaints, strangers };
}

/** What axe calls serious or critical, as lines. */
export async function seriousProblems(page: Page): Promise<string[]> {
  // The policy of the page lets no script in but its own; the test's way in is not a script element. Nor does it let in the styles that axe
  // would copy out of a shadow root (`preload`).
  if (await page.evaluate('typeof axe === "undefined"')) await page.evaluate(axe);
  const found = (await page.evaluate(
    "axe.run({ preload: false, resultTypes: ['violations'] }).then(({ violations }) => violations)",
  )) as AxeViolation[];
  return found
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 160)).join(' | ')}`);
}

interface AxeViolation {
  id: string;
  impact: string;
  nodes: { html: string }[];
}
