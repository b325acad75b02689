import type { Place } from './route';

export interface PageProps {
  place: Place;
  /** The caller's role and organization. */
  me: Me;
}

export interface Me {
  role: 'owner' | 'admin' | 'member';
  mode: 'live' | 'test';
  organization: { id: string; name: string; tier: string };
  organizations: { id: string; name: string }[];
  user: { name: string; platform_owner: boolean };
}
