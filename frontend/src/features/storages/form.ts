/** The values of the storage form, from the schema that the server checks by. Pure. */

import { ApiError } from '../../api/client';
import type { SpecField, Storage, StorageChange, StorageInput, StorageTypeInfo } from '../../api/types';

export type SpecValue = string | number | boolean;
export type SpecValues = Record<string, SpecValue>;

export interface Settings {
  check_storage_available_when_open: boolean;
  /** Empty = not set. */
  weight: number | '';
  capacity_bytes: number | null;
  /** In per cent; empty = not set. */
  high: number | '';
  low: number | '';
  maintenance_note: string;
}

export interface FormValues {
  name: string;
  type: Storage['type'];
  /** By type: what was typed for one type is there again when one comes back to it. */
  specs: Record<string, SpecValues>;
  settings: Settings;
}

export function defaultsOf(fields: readonly SpecField[]): SpecValues {
  return Object.fromEntries(fields.map(({ name, default: value }) => [name, value as SpecValue]));
}

export function emptyForm(types: readonly StorageTypeInfo[]): FormValues {
  return {
    name: '',
    type: types[0]?.type ?? 'nfs',
    specs: Object.fromEntries(types.map(({ type, spec }) => [type, defaultsOf(spec)])),
    settings: {
      check_storage_available_when_open: true,
      weight: '',
      capacity_bytes: null,
      high: '',
      low: '',
      maintenance_note: '',
    },
  };
}

export function formOf(storage: Storage, types: readonly StorageTypeInfo[]): FormValues {
  const empty = emptyForm(types);
  return {
    name: storage.name,
    type: storage.type,
    specs: { ...empty.specs, [storage.type]: { ...empty.specs[storage.type], ...(storage.spec as SpecValues) } },
    settings: {
      check_storage_available_when_open: storage.check_storage_available_when_open,
      weight: storage.weight ?? '',
      capacity_bytes: storage.capacity_bytes,
      high: percentOf(storage.high_watermark_ratio),
      low: percentOf(storage.low_watermark_ratio),
      maintenance_note: storage.maintenance_note,
    },
  };
}

/** Members in the form that the server takes: an emptied number is its default. */
export function specOf(fields: readonly SpecField[], values: SpecValues): Record<string, SpecValue> {
  return Object.fromEntries(
    fields.map((field) => {
      const value = values[field.name] ?? (field.default as SpecValue);
      return [field.name, field.kind === 'number' && value === '' ? (field.default as SpecValue) : trimmed(value)];
    }),
  );
}

function trimmed(value: SpecValue): SpecValue {
  return typeof value === 'string' ? value.trim() : value;
}

function settingsOf({ settings }: FormValues) {
  const { weight, high, low, capacity_bytes, maintenance_note, check_storage_available_when_open } = settings;
  return {
    check_storage_available_when_open,
    weight: weight === '' ? null : weight,
    capacity_bytes,
    high_watermark_ratio: ratioOf(high),
    low_watermark_ratio: ratioOf(low),
    maintenance_note: maintenance_note.trim(),
  };
}

export function inputOf(values: FormValues, fields: readonly SpecField[]): StorageInput {
  const spec = specOf(fields, values.specs[values.type] ?? {});
  return { name: values.name.trim(), type: values.type, spec, ...settingsOf(values) };
}

/** Only what differs from the storage as it was opened, for the version that it had then. */
export function changeOf(values: FormValues, fields: readonly SpecField[], opened: Storage): StorageChange {
  const { type } = values;
  const spec = specOf(fields, values.specs[type] ?? {});
  const change: StorageChange = { version: opened.version };
  if (type !== opened.type) change.type = type;
  const differing = Object.entries(spec).filter(([key, value]) => opened.spec[key] !== value);
  if (type !== opened.type) change.spec = spec;
  else if (differing.length > 0) change.spec = Object.fromEntries(differing);
  const settings = settingsOf(values);
  for (const [key, value] of Object.entries(settings)) {
    if (opened[key as keyof typeof settings] !== value) Object.assign(change, { [key]: value });
  }
  return change;
}

export function isChange(change: StorageChange): boolean {
  return Object.keys(change).length > 1;
}

/** Members of a change that make the blocks stored so far unreachable. */
export function movingFields(change: StorageChange, fields: readonly SpecField[]): string[] {
  if (change.type !== undefined) return ['type'];
  return fields.filter(({ name, locating }) => locating && change.spec && name in change.spec).map(({ label }) => label);
}

/** What is missing before the server needs to be asked, by the names that it uses for fields. */
export function problemsOf(values: FormValues, fields: readonly SpecField[], isNew: boolean): Record<string, string> {
  const found: Record<string, string> = {};
  if (isNew && !values.name.trim()) found.name = 'A storage needs a name';
  const spec = specOf(fields, values.specs[values.type] ?? {});
  for (const { name, label, required, kind, minimum } of fields) {
    const value = spec[name];
    const isMissing = kind === 'number' ? required && minimum !== null && Number(value) < minimum : value === '';
    if (required && isMissing) found[`spec.${name}`] = `${label} is required`;
  }
  return found;
}

/** The sentences of a refused write at their fields; what belongs to no field of the form stays apart. */
export function errorsOf(error: Error | null, fields: readonly SpecField[]): { byField: Record<string, string>; rest: boolean } {
  if (!(error instanceof ApiError)) return { byField: {}, rest: error !== null };
  const told = error.errors.length > 0 ? error.errors : [{ field: error.field, message: error.message }];
  const byField: Record<string, string> = {};
  let rest = false;
  for (const { field, message } of told) {
    const key = field && fieldKey(field, fields);
    if (key) byField[key] = withoutField(message, field);
    else rest = true;
  }
  return { byField, rest };
}

const SETTINGS = new Set([
  'name',
  'type',
  'check_storage_available_when_open',
  'weight',
  'capacity_bytes',
  'high_watermark_ratio',
  'low_watermark_ratio',
  'maintenance_note',
]);

function fieldKey(field: string, fields: readonly SpecField[]): string | null {
  if (SETTINGS.has(field)) return field;
  const member = field.replace(/^spec\./, '');
  return fields.some(({ name }) => name === member) ? `spec.${member}` : null;
}

/** The server's sentences begin with the field; beside the field that is said twice. */
function withoutField(message: string, field: string): string {
  const prefix = `${field}: `;
  const text = message.startsWith(prefix) ? message.slice(prefix.length) : message;
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function percentOf(ratio: number | null): number | '' {
  return ratio === null ? '' : Math.round(ratio * 10_000) / 100;
}

function ratioOf(percent: number | ''): number | null {
  return percent === '' ? null : Math.round(percent * 100) / 10_000;
}
