import { NativeSelect, NumberInput, Switch, TextInput } from '@mantine/core';

import type { SpecField } from '../../api/types';
import type { SpecValue } from './form';

interface SpecInputProps {
  field: SpecField;
  value: SpecValue;
  error: string | undefined;
  onChange: (value: SpecValue) => void;
}

/** One member of a spec, as its schema says. */
export function SpecInput({ field, value, error, onChange }: SpecInputProps) {
  const shared = { label: field.label, description: hintOf(field), error };
  if (field.choices.length > 0) {
    const isNumber = field.kind === 'number';
    const choices = field.choices.map((choice) => ({ value: String(choice.value), label: choice.label }));
    const known = choices.some((choice) => choice.value === String(value));
    return (
      <NativeSelect
        size="xs"
        {...shared}
        withAsterisk={field.required}
        data={known ? choices : [{ value: String(value), label: value === '' ? 'Choose…' : String(value) }, ...choices]}
        value={String(value)}
        onChange={(event) => onChange(isNumber ? Number(event.currentTarget.value) : event.currentTarget.value)}
      />
    );
  }
  if (field.kind === 'flag') {
    return <Switch size="sm" {...shared} checked={value === true} onChange={(event) => onChange(event.currentTarget.checked)} />;
  }
  if (field.kind === 'number') {
    return (
      <NumberInput
        {...shared}
        withAsterisk={field.required}
        placeholder={field.example}
        {...(field.minimum === null ? {} : { min: field.minimum })}
        {...(field.maximum === null ? {} : { max: field.maximum })}
        clampBehavior="none"
        allowDecimal={false}
        suffix={field.unit ? ` ${field.unit}` : ''}
        value={value as number | string}
        onChange={onChange}
      />
    );
  }
  return (
    <TextInput
      {...shared}
      withAsterisk={field.required}
      placeholder={field.example}
      autoComplete="off"
      spellCheck={false}
      value={String(value)}
      onChange={(event) => onChange(event.currentTarget.value)}
    />
  );
}

function hintOf({ help, locating, secret }: SpecField): string {
  const more = [
    ...(locating ? ['Says where the data is: changing it leaves the stored blocks behind.'] : []),
    ...(secret ? ['A password in it is shown hidden; leave that as it is to keep it.'] : []),
  ];
  return [help, ...more].filter(Boolean).join(' ');
}
