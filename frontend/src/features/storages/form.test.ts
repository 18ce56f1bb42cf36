import { describe, expect, it } from 'vitest';

import { ApiError } from '../../api/client';
import type { SpecField, Storage, StorageTypeInfo } from '../../api/types';
import { changeOf, emptyForm, errorsOf, formOf, inputOf, isChange, movingFields, problemsOf } from './form';

function field(name: string, part: Partial<SpecField> = {}): SpecField {
  return {
    name,
    label: name,
    help: '',
    kind: 'text',
    required: false,
    default: '',
    minimum: null,
    maximum: null,
    choices: [],
    unit: '',
    example: '',
    secret: false,
    locating: false,
    ...part,
  };
}

const FIELDS = [
  field('root_path', { kind: 'path', required: true, locating: true }),
  field('key_count_per_file', { kind: 'number', default: 1, minimum: 0 }),
  field('touch', { kind: 'flag', default: false }),
];
const PORTS = [field('port', { kind: 'number', required: true, default: 0, minimum: 1 })];
const TYPES = [
  { type: 'nfs', scheme: 'file', spec: FIELDS, capabilities: null },
  { type: 'mooncake', scheme: 'mooncake', spec: PORTS, capabilities: null },
] as StorageTypeInfo[];

const STORAGE = {
  name: 'nfs_01',
  type: 'nfs',
  spec: { root_path: '/kv/', key_count_per_file: 8, touch: false },
  version: 3,
  check_storage_available_when_open: false,
  weight: null,
  capacity_bytes: 1024,
  high_watermark_ratio: 0.875,
  low_watermark_ratio: null,
  maintenance_note: '',
} as unknown as Storage;

describe('a new storage', () => {
  it('begins with the defaults of the schema', () => {
    const values = emptyForm(TYPES);
    expect(values.type).toBe('nfs');
    expect(inputOf({ ...values, name: ' a ' }, FIELDS)).toMatchObject({
      name: 'a',
      type: 'nfs',
      spec: { root_path: '', key_count_per_file: 1, touch: false },
      weight: null,
      capacity_bytes: null,
      high_watermark_ratio: null,
    });
  });

  it('says what is missing at its field', () => {
    const values = emptyForm(TYPES);
    expect(problemsOf(values, FIELDS, true)).toEqual({
      name: 'A storage needs a name',
      'spec.root_path': 'root_path is required',
    });
    const other = { ...values, name: 'm', type: 'mooncake' as const };
    expect(problemsOf(other, PORTS, true)).toEqual({ 'spec.port': 'port is required' });
  });

  it('sends an emptied number as its default', () => {
    const values = emptyForm(TYPES);
    values.specs.nfs = { ...values.specs.nfs, key_count_per_file: '' };
    expect(inputOf(values, FIELDS).spec).toMatchObject({ key_count_per_file: 1 });
  });
});

describe('a changed storage', () => {
  it('sends only what differs, for the version that was opened', () => {
    const values = formOf(STORAGE, TYPES);
    expect(isChange(changeOf(values, FIELDS, STORAGE))).toBe(false);
    values.specs.nfs = { ...values.specs.nfs, root_path: '/other/' };
    values.settings = { ...values.settings, high: 90, weight: 2 };
    const change = changeOf(values, FIELDS, STORAGE);
    expect(change).toEqual({ version: 3, spec: { root_path: '/other/' }, high_watermark_ratio: 0.9, weight: 2 });
    expect(movingFields(change, FIELDS)).toEqual(['root_path']);
  });

  it('sends the whole spec with another type', () => {
    const values = { ...formOf(STORAGE, TYPES), type: 'mooncake' as const };
    const change = changeOf(values, PORTS, STORAGE);
    expect(change).toEqual({ version: 3, type: 'mooncake', spec: { port: 0 } });
    expect(movingFields(change, PORTS)).toEqual(['type']);
  });
});

describe('a refused write', () => {
  const refused = (field: string | null, message: string, errors: ApiError['errors'] = []) =>
    new ApiError({ status: 400, code: 'invalid_argument', field, message, errors });

  it('is shown at its field, in the words of the server', () => {
    expect(errorsOf(refused('spec.root_path', 'spec.root_path: must be an absolute path'), FIELDS)).toEqual({
      byField: { 'spec.root_path': 'Must be an absolute path' },
      rest: false,
    });
  });

  it('keeps apart what belongs to no field of the form', () => {
    const several = refused('name', 'x', [
      { field: 'name', code: 'invalid_argument', message: 'This field may not be blank.' },
      { field: 'odd', code: 'invalid_argument', message: 'no' },
    ]);
    expect(errorsOf(several, FIELDS)).toEqual({ byField: { name: 'This field may not be blank.' }, rest: true });
    expect(errorsOf(new Error('lost'), FIELDS)).toEqual({ byField: {}, rest: true });
    expect(errorsOf(null, FIELDS)).toEqual({ byField: {}, rest: false });
  });
});
