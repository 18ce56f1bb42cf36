import { ActionIcon, CloseButton, Menu, TextInput, Tooltip } from '@mantine/core';
import { useDebouncedCallback } from '@mantine/hooks';
import { IconAdjustmentsHorizontal, IconCheck, IconSearch } from '@tabler/icons-react';
import type { Column } from '@tanstack/react-table';
import { useEffect, useRef, useState, type ReactNode } from 'react';

import { relativeTime } from '../../lib/time';
import { useNow } from '../../lib/useNow';
import { POLL_MS } from '../../live/status';
import classes from './DataTable.module.css';
import type { TableView } from './useTableView';

interface TableToolbarProps<Row> {
  filterHint: string;
  filter: string;
  onFilter: (filter: string) => void;
  updatedAt: number;
  failedRefresh: boolean;
  columns: Column<Row>[];
  view: TableView;
  actions: ReactNode;
}

export function TableToolbar<Row>(props: TableToolbarProps<Row>) {
  return (
    <div className={classes.toolbar}>
      <FilterInput hint={props.filterHint} value={props.filter} onChange={props.onFilter} />
      <div className={classes.toolbarEnd}>
        <DataAge updatedAt={props.updatedAt} failed={props.failedRefresh} />
        {props.actions}
        <ViewMenu columns={props.columns} view={props.view} />
      </div>
    </div>
  );
}

function FilterInput({ hint, value, onChange }: { hint: string; value: string; onChange: (value: string) => void }) {
  const [text, setText] = useState(value);
  const send = useDebouncedCallback(onChange, 250);
  const sent = useRef(value);
  useEffect(() => {
    // Follow the URL (back button, cleared filter) but not our own delayed echo of what is typed.
    if (value !== sent.current) setText(value);
    sent.current = value;
  }, [value]);
  const type = (next: string) => {
    setText(next);
    sent.current = next.trim();
    send(next);
  };
  return (
    <TextInput
      className={classes.filter}
      data-filter
      type="search"
      aria-label="Filter"
      placeholder={`${hint}  ( / )`}
      leftSection={<IconSearch size={14} aria-hidden />}
      rightSection={text && <CloseButton size="xs" aria-label="Clear the filter" onClick={() => type('')} />}
      value={text}
      onChange={(event) => type(event.currentTarget.value)}
      onKeyDown={(event) => {
        if (event.key === 'Escape') event.currentTarget.blur();
      }}
    />
  );
}

/** The age of what is shown, once it is older than two rounds of asking. */
function DataAge({ updatedAt, failed }: { updatedAt: number; failed: boolean }) {
  const now = useNow(1000);
  if (!updatedAt || (!failed && now - updatedAt < 2 * POLL_MS + 1000)) return null;
  const age = relativeTime(new Date(updatedAt).toISOString(), now);
  return (
    <span className={failed ? classes.ageFailed : classes.age} role="status">
      {failed ? `Refresh failed; data from ${age}` : `Data from ${age}`}
    </span>
  );
}

function ViewMenu<Row>({ columns, view }: { columns: Column<Row>[]; view: TableView }) {
  const check = (on: boolean) => (on ? <IconCheck size={14} aria-hidden /> : <span style={{ width: 14 }} />);
  return (
    <Menu position="bottom-end" shadow="md" closeOnItemClick={false} width={200}>
      <Menu.Target>
        <Tooltip label="Columns and density">
          <ActionIcon size={28} aria-label="Columns and density">
            <IconAdjustmentsHorizontal size={17} stroke={1.7} />
          </ActionIcon>
        </Tooltip>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Label>Columns</Menu.Label>
        {columns.slice(1).map((column) => (
          <Menu.Item
            key={column.id}
            role="menuitemcheckbox"
            aria-checked={column.getIsVisible()}
            leftSection={check(column.getIsVisible())}
            onClick={() => view.toggleColumn(column.id, !column.getIsVisible())}
          >
            {typeof column.columnDef.header === 'string' ? column.columnDef.header : column.id}
          </Menu.Item>
        ))}
        <Menu.Divider />
        <Menu.Label>Rows</Menu.Label>
        {(['compact', 'comfortable'] as const).map((density) => (
          <Menu.Item
            key={density}
            role="menuitemradio"
            aria-checked={view.density === density}
            leftSection={check(view.density === density)}
            onClick={() => view.setDensity(density)}
          >
            {density === 'compact' ? 'Compact' : 'Comfortable'}
          </Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  );
}
