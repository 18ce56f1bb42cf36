import { Button, Modal, TextInput } from '@mantine/core';
import { useState, type ReactNode } from 'react';

import classes from './ConfirmDialog.module.css';
import { MutationError } from './MutationError';

interface ConfirmDialogProps {
  opened: boolean;
  onClose: () => void;
  title: string;
  /** What will happen, in numbers first. */
  consequences: ReactNode[];
  children?: ReactNode;
  /** The name to type before the button works; left out for what can be undone. */
  typedName?: string;
  confirmLabel: string;
  danger?: boolean;
  pending: boolean;
  error: Error | null;
  onConfirm: () => void;
}

export function ConfirmDialog(props: ConfirmDialogProps) {
  return (
    <Modal opened={props.opened} onClose={props.onClose} title={props.title} size="md">
      <ConfirmBody {...props} />
    </Modal>
  );
}

/** Inside the modal, so that a typed name does not outlive one opening. */
function ConfirmBody(props: ConfirmDialogProps) {
  const [typed, setTyped] = useState('');
  const confirmed = props.typedName === undefined || typed === props.typedName;
  return (
    <form
      className={classes.form}
      onSubmit={(event) => {
        event.preventDefault();
        if (confirmed && !props.pending) props.onConfirm();
      }}
    >
      <ul className={classes.consequences}>
        {props.consequences.map((line, index) => (
          <li key={index}>{line}</li>
        ))}
      </ul>
      {props.children}
      {props.typedName !== undefined && (
        <TextInput
          label={
            <>
              Type <code>{props.typedName}</code> to confirm
            </>
          }
          value={typed}
          onChange={(event) => setTyped(event.currentTarget.value)}
          autoComplete="off"
          spellCheck={false}
          data-autofocus
        />
      )}
      {props.error && <MutationError error={props.error} />}
      <div className={classes.buttons}>
        <Button variant="default" onClick={props.onClose}>
          Cancel
        </Button>
        <Button
          type="submit"
          className={props.danger ? classes.danger : undefined}
          disabled={!confirmed}
          loading={props.pending}
        >
          {props.confirmLabel}
        </Button>
      </div>
    </form>
  );
}
