import { ActionIcon, Tooltip } from '@mantine/core';
import { useClipboard } from '@mantine/hooks';
import { IconCheck, IconCopy, IconLink, IconTerminal2 } from '@tabler/icons-react';

import { withQuery } from '../api/client';

interface CopyButtonProps {
  value: string | (() => string);
  label: string;
  Icon?: typeof IconCopy;
  size?: number;
}

export function CopyButton({ value, label, Icon = IconCopy, size = 22 }: CopyButtonProps) {
  const { copy, copied } = useClipboard({ timeout: 1500 });
  return (
    <Tooltip label={copied ? 'Copied' : label}>
      <ActionIcon
        aria-label={label}
        size={size}
        onClick={() => copy(typeof value === 'string' ? value : value())}
      >
        {copied ? <IconCheck size={size * 0.62} color="var(--k-ok)" /> : <Icon size={size * 0.62} stroke={1.7} />}
      </ActionIcon>
    </Tooltip>
  );
}

/** A call anyone can repeat: the token is a placeholder, never the reader's own session. */
export function curlOf(path: string, origin: string): string {
  return `curl -H "Authorization: Bearer $KVCM_TOKEN" '${origin}${path.replaceAll("'", '%27')}'`;
}

interface CopyActionsProps {
  id?: string;
  path: string;
  query?: Record<string, string | number | undefined>;
}

/** The three copies that every list and detail offers: id, link, curl. */
export function CopyActions({ id, path, query }: CopyActionsProps) {
  return (
    <span style={{ display: 'inline-flex', gap: 2 }}>
      {id !== undefined && <CopyButton value={id} label="Copy id" size={28} />}
      <CopyButton value={() => window.location.href} label="Copy link" Icon={IconLink} size={28} />
      <CopyButton
        value={() => curlOf(withQuery(path, query), window.location.origin)}
        label="Copy as curl"
        Icon={IconTerminal2}
        size={28}
      />
    </span>
  );
}
