import { Button, Checkbox, NativeSelect, TextInput } from '@mantine/core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState, type ReactNode } from 'react';

import { ApiError } from '../../api/client';
import { savedStorageTry, storageAdd, storageQuery, storageTry, storageUpdate } from '../../api/resources';
import type { Storage, StorageTypeInfo, Trial } from '../../api/types';
import { ActionButton } from '../../components/actions/ActionButton';
import { MutationError } from '../../components/actions/MutationError';
import layout from '../../components/layout.module.css';
import { notifyDone } from '../../components/notify';
import { Panel } from '../../components/Panel';
import { changeOf, emptyForm, errorsOf, formOf, inputOf, isChange, movingFields, problemsOf, specOf, type FormValues } from './form';
import { SettingsFields } from './SettingsFields';
import { SpecInput } from './SpecInput';
import { typeName } from './status';
import classes from './storages.module.css';
import { TrialResult } from './TrialResult';

interface StorageFormProps {
  types: readonly StorageTypeInfo[];
  /** The storage as it was when the form opened; none for a new one. */
  opened: Storage | null;
  onSaved: (storage: Storage) => void;
  onCancel: () => void;
}

/** A new storage or a changed one. Which members it has comes from the server's schema of its type. */
export function StorageForm({ types, opened, onSaved, onCancel }: StorageFormProps) {
  const [values, setValues] = useState<FormValues>(() => (opened ? formOf(opened, types) : emptyForm(types)));
  const [wasTried, setWasTried] = useState(false);
  const [mayCreate, setMayCreate] = useState(true);
  const client = useQueryClient();
  const info = types.find(({ type }) => type === values.type);
  const fields = info?.spec ?? [];
  const spec = values.specs[values.type] ?? {};
  const change = opened && changeOf(values, fields, opened);

  const save = useMutation({
    mutationFn: (force: boolean) =>
      opened && change ? storageUpdate(opened.name, change, force) : storageAdd(inputOf(values, fields)),
    onSuccess: (saved) => {
      client.setQueryData(storageQuery(saved.name).queryKey, saved);
      void client.invalidateQueries({ queryKey: ['storages', 'list'] });
      notifyDone(opened ? `${saved.name} is saved` : `${saved.name} is added`);
      onSaved(saved);
    },
  });
  const trial = useMutation({
    mutationFn: () =>
      opened && values.type === opened.type
        ? savedStorageTry(opened.name, specOf(fields, spec))
        : storageTry(values.type, specOf(fields, spec), mayCreate),
  });

  const problems = problemsOf(values, fields, opened === null);
  const refused = errorsOf(save.error ?? trial.error, fields);
  const errors = { ...(wasTried ? problems : {}), ...refused.byField };
  const failed = save.error ?? trial.error;

  function edit(next: FormValues) {
    setValues(next);
    save.reset();
    trial.reset();
  }

  /** What is missing is shown at its field; the server is asked only when nothing is. */
  function checked(act: () => void, needsName: boolean) {
    setWasTried(true);
    const { name: missingName, ...others } = problems;
    if (Object.keys(others).length > 0 || (needsName && missingName)) return;
    act();
  }

  return (
    <form
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        checked(() => save.mutate(false), true);
      }}
    >
      <div className={layout.columns}>
        <div className={layout.stack}>
          <Panel title="What it is">
            <div className={classes.fields}>
              <TextInput
                label="Name"
                description={opened ? 'A storage keeps its name.' : 'Letters, digits, dot, dash and underscore; it is part of every URI.'}
                withAsterisk={opened === null}
                disabled={opened !== null}
                autoComplete="off"
                spellCheck={false}
                value={values.name}
                error={errors.name}
                onChange={(event) => edit({ ...values, name: event.currentTarget.value })}
              />
              <NativeSelect
                size="xs"
                label="Type"
                description={info?.capabilities ? capabilitiesOf(info.capabilities) : 'Nothing can be kept on storages of this type yet.'}
                error={errors.type}
                value={values.type}
                data={types.map(({ type }) => ({ value: type, label: typeName(type) }))}
                onChange={(event) => {
                  setWasTried(false);
                  edit({ ...values, type: event.currentTarget.value as Storage['type'] });
                }}
              />
            </div>
          </Panel>
          <Panel title={`Configuration of ${typeName(values.type)}`}>
            <div className={classes.fields}>
              {fields.map((field) => (
                <SpecInput
                  key={`${values.type}.${field.name}`}
                  field={field}
                  value={spec[field.name] ?? (field.default as string)}
                  error={errors[`spec.${field.name}`]}
                  onChange={(value) =>
                    edit({ ...values, specs: { ...values.specs, [values.type]: { ...spec, [field.name]: value } } })
                  }
                />
              ))}
            </div>
          </Panel>
        </div>
        <div className={layout.stack}>
          <Panel title="Settings">
            <div className={classes.fields}>
              <SettingsFields
                settings={values.settings}
                errors={errors}
                onChange={(part) => edit({ ...values, settings: { ...values.settings, ...part } })}
              />
            </div>
          </Panel>
          <TrialPanel
            trial={trial}
            onTry={() => checked(() => trial.mutate(), false)}
            create={
              (!opened || values.type !== opened.type) && info?.capabilities?.needs_mount
                ? { checked: mayCreate, onChange: setMayCreate }
                : null
            }
          />
          {failed && (
            <Refusal error={failed} refused={refused}>
              {failed instanceof ApiError && failed.code === 'in_use' && change && (
                <ForceMove fields={movingFields(change, fields)} pending={save.isPending} onForce={() => save.mutate(true)} />
              )}
            </Refusal>
          )}
          <div className={classes.buttons}>
            <Button variant="default" onClick={onCancel}>
              Cancel
            </Button>
            <Button type="submit" loading={save.isPending} disabled={change !== null && !isChange(change)}>
              {opened ? 'Save' : 'Add the storage'}
            </Button>
          </div>
        </div>
      </div>
    </form>
  );
}

interface TrialPanelProps {
  trial: { isPending: boolean; data: Trial | undefined };
  onTry: () => void;
  /** Whether a missing folder is made; null where there is nothing to ask. */
  create: { checked: boolean; onChange: (checked: boolean) => void } | null;
}

function TrialPanel({ trial, onTry, create }: TrialPanelProps) {
  return (
    <Panel title="Test connection">
      <div className={classes.fields}>
        <p className="muted">Writes, reads and deletes a little there. Nothing is saved.</p>
        {create && (
          <Checkbox
            size="xs"
            label="Make the folder if it is missing"
            checked={create.checked}
            onChange={(event) => create.onChange(event.currentTarget.checked)}
          />
        )}
        <div>
          <ActionButton needs="operator" loading={trial.isPending} onClick={onTry}>
            Test connection
          </ActionButton>
        </div>
        {trial.data && <TrialResult trial={trial.data} />}
      </div>
    </Panel>
  );
}

interface RefusalProps {
  error: Error;
  refused: ReturnType<typeof errorsOf>;
  children: ReactNode;
}

/** A refusal as a whole, and whether some of it stands at the fields. */
function Refusal({ error, refused, children }: RefusalProps) {
  const isAtFields = Object.keys(refused.byField).length > 0;
  return (
    <>
      {(refused.rest || !isAtFields) && <MutationError error={error}>{children}</MutationError>}
      {isAtFields && (
        <p className={classes.refused} role="alert">
          Some values were refused: see the marked fields.
        </p>
      )}
    </>
  );
}

function ForceMove({ fields, pending, onForce }: { fields: string[]; pending: boolean; onForce: () => void }) {
  return (
    <span className={classes.force}>
      Changing {fields.join(', ') || 'this'} leaves the stored blocks where they are: engines will not find them.
      <Button size="compact-xs" variant="default" loading={pending} onClick={onForce}>
        Save all the same
      </Button>
    </span>
  );
}

function capabilitiesOf(can: NonNullable<StorageTypeInfo['capabilities']>): string {
  const parts = [
    ...(can.needs_mount ? ['a directory that every host mounts'] : []),
    ...(can.has_slot_files ? ['several blocks a file'] : []),
    ...(can.can_punch_holes ? ['frees single blocks of a file'] : []),
    ...(can.has_segments ? ['memory of several nodes'] : []),
    ...(can.has_capacity ? ['tells how full it is'] : []),
    ...(can.may_lose_content ? ['may drop blocks by itself'] : []),
  ];
  const text = parts.join(', ');
  return text ? `${text.charAt(0).toUpperCase()}${text.slice(1)}.` : '';
}
