import { describe } from 'vitest';
import { everyPage } from './dashboard/every-page.js';
import { forms } from './dashboard/forms.js';
import { oneCall } from './dashboard/one-call.js';
import { dashboardScene } from './dashboard/scene.js';
import { signingIn } from './dashboard/signing-in.js';

/** The dashboard in a browser, on a whole Trunkline: real calls, real pages. One gateway and one browser for all, so the order matters. */

const scene = dashboardScene();
describe('a call', () => oneCall(scene));
describe('signing in', () => signingIn(scene));
describe('forms', () => forms(scene));
describe('every page', () => everyPage(scene));
