import { notifications } from '@mantine/notifications';

import { ApiError } from '../api/client';

export function notifyDone(message: string): void {
  notifications.show({ message, color: 'teal', withBorder: true });
}

export function notifyError(title: string, error: Error): void {
  const requestId = error instanceof ApiError && error.requestId ? ` (request ${error.requestId})` : '';
  notifications.show({ title, message: error.message + requestId, color: 'red', withBorder: true, autoClose: 12_000 });
}
