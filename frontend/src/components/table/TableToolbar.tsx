import { ActionIcon, CloseButton, Menu, TextInput } from '@mantine/core';
import { useDebouncedCallback } from '@mantine/hooks';
import { IconAdjustmentsHorizontal, IconSearch } from '@tabler/icons-react';
import type { Column } from '@tanstack/react-table';
import { useEffect, useRef, useState, type ReactNode } from 'react';

import { relativeTime } from '../../lib/time';
import { useNow } from '../../lib/useNow';
import { POLL_MS } from '../../live/status';
import classes from './DataTable.module.css';
import type { Density, TableView } from './useTableView';

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
      rightSection={text && <CloseButton size="xs" aria-label="Clear" onClick={() => type('')} />}
      value={text}
      onChange={(event) => type(event.currentTarget.value)}
      // A change must not arrive after the reader went on to another page.
      onBlur={() => send.flush()}
      onKeyDown={(event) => {
        if (event.key !== 'Escape') return;
        // Leaves the field for the rows; the browser's own Escape would empty it.
        event.preventDefault();
        event.currentTarget.blur();
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
  return (
    <Menu position="bottom-end" shadow="md" width={200}>
      <Menu.Target>
        <ActionIcon size={28} aria-label="Columns and density" title="Columns and density">
          <IconAdjustmentsHorizontal size={17} stroke={1.7} />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Label>Columns</Menu.Label>
        {columns.slice(1).map((column) => (
          <Menu.CheckboxItem
            key={column.id}
            checked={column.getIsVisible()}
            onChange={(visible) => view.toggleColumn(column.id, visible)}
          >
            {typeof column.columnDef.header === 'string' ? column.columnDef.header : column.id}
          </Menu.CheckboxItem>
        ))}
        <Menu.Divider />
        <Menu.Label>Rows</Menu.Label>
        <Menu.RadioGroup value={view.density} onChange={(value) => view.setDensity(value as Density)}>
          <Menu.RadioItem value="compact">Compact</Menu.RadioItem>
          <Menu.RadioItem value="comfortable">Comfortable</Menu.RadioItem>
        </Menu.RadioGroup>
      </Menu.Dropdown>
    </Menu>
  );
}
