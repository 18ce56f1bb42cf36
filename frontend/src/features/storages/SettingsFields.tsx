import { NativeSelect, NumberInput, Switch, Textarea } from '@mantine/core';
import { useState } from 'react';

import { exactBytes } from '../../lib/format';
import { bytesOf, splitBytes, UNITS, type Unit } from '../groups/quotaInput';
import type { Settings } from './form';
import classes from './storages.module.css';

interface SettingsFieldsProps {
  settings: Settings;
  errors: Record<string, string>;
  onChange: (part: Partial<Settings>) => void;
}

/** What every storage has besides its spec. */
export function SettingsFields({ settings, errors, onChange }: SettingsFieldsProps) {
  return (
    <>
      <CapacityInput
        value={settings.capacity_bytes}
        error={errors.capacity_bytes}
        onChange={(capacity_bytes) => onChange({ capacity_bytes })}
      />
      <div className={classes.pair}>
        <Percent
          label="High watermark"
          description="From here on it takes no new blocks; empty = only when nothing is free."
          value={settings.high}
          error={errors.high_watermark_ratio}
          onChange={(high) => onChange({ high })}
        />
        <Percent
          label="Low watermark"
          description="Below this it takes them again; empty = a little below the high one."
          value={settings.low}
          error={errors.low_watermark_ratio}
          onChange={(low) => onChange({ low })}
        />
      </div>
      <NumberInput
        label="Weight"
        description="Share of reads and of freely placed blocks among several storages; empty = by type."
        min={0}
        allowDecimal={false}
        clampBehavior="none"
        value={settings.weight}
        error={errors.weight}
        onChange={(value) => onChange({ weight: value === '' ? '' : Number(value) })}
      />
      <Switch
        size="sm"
        label="It must work when it is opened"
        description="Adding, enabling or moving it is refused while it cannot be reached."
        checked={settings.check_storage_available_when_open}
        onChange={(event) => onChange({ check_storage_available_when_open: event.currentTarget.checked })}
      />
      <Textarea
        size="xs"
        autosize
        minRows={2}
        maxRows={6}
        label="Maintenance note"
        description="Shown to everyone who looks at the storage."
        maxLength={500}
        value={settings.maintenance_note}
        error={errors.maintenance_note}
        onChange={(event) => onChange({ maintenance_note: event.currentTarget.value })}
      />
    </>
  );
}

interface PercentProps {
  label: string;
  description: string;
  value: number | '';
  error: string | undefined;
  onChange: (value: number | '') => void;
}

function Percent({ onChange, ...rest }: PercentProps) {
  return (
    <NumberInput
      {...rest}
      suffix=" %"
      min={0}
      max={100}
      decimalScale={2}
      clampBehavior="none"
      onChange={(value) => onChange(value === '' ? '' : Number(value))}
    />
  );
}

interface CapacityInputProps {
  value: number | null;
  error: string | undefined;
  onChange: (value: number | null) => void;
}

function CapacityInput({ value, error, onChange }: CapacityInputProps) {
  const [unit, setUnit] = useState<Unit>(() => (value ? splitBytes(value).unit : 'GiB'));
  const amount = value === null ? '' : splitBytes(value, unit).amount;
  return (
    <div className={classes.amount}>
      <NumberInput
        label="Capacity"
        description={value === null ? 'Bytes of blocks that it may hold; empty = as much as fits.' : exactBytes(value)}
        min={0}
        decimalScale={3}
        thousandSeparator=","
        value={amount}
        error={error}
        onChange={(next) => onChange(next === '' ? null : bytesOf({ amount: Number(next), unit }))}
      />
      <NativeSelect
        size="xs"
        aria-label="Unit of the capacity"
        data={[...UNITS]}
        value={unit}
        onChange={(event) => setUnit(event.currentTarget.value as Unit)}
      />
    </div>
  );
}
