/**
 * Names for the shapes of REST that the pages use. They are generated from the back end's OpenAPI
 * document (`npm run api-types`): a renamed member there fails the type check here.
 */

import type { components } from './schema';

type Schemas = components['schemas'];

export type Session = Schemas['SessionOutput'];
export type Role = NonNullable<Session['role']>;
export type ThemeChoice = Session['theme'];

export type Storage = Schemas['StorageOutput'];
export type HealthChange = Schemas['HealthChangeOutput'];

/** What the live topic pushes of a storage. */
export type StorageNow = Omit<Storage, 'spec'>;
export interface StoragesPicture {
  storages: StorageNow[];
  is_complete: boolean;
}
export type StorageTypeInfo = Schemas['StorageTypeOutput'];
export type SpecField = StorageTypeInfo['spec'][number];
export type StorageInput = Schemas['StorageInputRequest'];
export type Trial = Schemas['TrialOutput'];
export type HealthSamples = Schemas['HealthSamplesOutput'];
export type OrphanRun = Schemas['OrphanRunOutput'];
export type Segment = Storage['segments'][number];
export type Departure = NonNullable<Storage['departure']>;

export type Alert = Schemas['AlertOutput'];
export type Severity = Alert['severity'];
export type Silence = Schemas['SilenceOutput'];
/** The live topic `alerts`. */
export interface AlertsPicture {
  counts: Record<Severity, number>;
  firing: Alert[];
}

export type InstanceGroup = Schemas['GroupOutput'];
export type GroupUsage = NonNullable<InstanceGroup['usage']>;
export type BlockTraffic = NonNullable<InstanceGroup['traffic']>;
export type Instance = Schemas['InstanceOutput'];
export type Estimate = Schemas['EstimateOutput'];
export type ModelDeployment = Instance['model_deployment'];

export type StorageChange = Schemas['PatchedStorageChangeRequest'] & { version: number };
export type GroupChange = Schemas['PatchedGroupChangeRequest'] & { version: number };

export type Overview = Schemas['Overview'];
export type HistoryPoint = Overview['history'][number];
export type Rpc = Overview['rpcs'][number];
export type Process = Overview['processes'][number];

export type ErrorBody = Schemas['Error'];
export type FieldError = Schemas['FieldError'];

/** Every list has this form; the generated types name one for each resource. */
export interface Page<T> {
  count: number;
  next?: string | null;
  previous?: string | null;
  results: T[];
}
