import type { ReactNode } from 'react';

import { ApiError } from '../../api/client';
import classes from './ConfirmDialog.module.css';

/** Why a write failed: the sentence, every field at fault, the code and the request id. */
export function MutationError({ error, children }: { error: Error; children?: ReactNode }) {
  const api = error instanceof ApiError ? error : null;
  const others = api?.errors.filter(({ message }) => message !== error.message) ?? [];
  return (
    <div className={classes.error} role="alert">
      {error.message}
      {others.length > 0 && (
        <ul>
          {others.map(({ field, message }) => (
            <li key={`${field ?? ''}:${message}`}>
              {field ? `${field}: ${message}` : message}
            </li>
          ))}
        </ul>
      )}
      {children}
      {api && (
        <span className={classes.errorMeta}>
          <code>{api.code}</code>
          {api.requestId && (
            <>
              {' '}
              · request <code>{api.requestId}</code>
            </>
          )}
        </span>
      )}
    </div>
  );
}
