import type { Schemas } from './description';

export type Call = Schemas['Call'];
export type CallDetail = Schemas['CallDetail'];
export type CallEvent = Schemas['CallEvent'];
export type Explanation = Schemas['CallExplanation'];
export type Endpoint = Schemas['Endpoint'];
export type PhoneNumber = Schemas['PhoneNumber'];
export type Trunk = Schemas['Trunk'];
export type OverviewData = Schemas['Overview'];
