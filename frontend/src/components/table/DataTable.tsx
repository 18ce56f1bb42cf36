import { Skeleton } from '@mantine/core';
import { IconFilterOff } from '@tabler/icons-react';
import { flexRender, getCoreRowModel, useReactTable, type ColumnDef, type RowData } from '@tanstack/react-table';
import type { UseQueryResult } from '@tanstack/react-query';
import { clsx } from 'clsx';
import type { MouseEvent, ReactNode } from 'react';

import type { Page } from '../../api/types';
import { changeList, DEFAULT_PAGE_SIZE, type ListChange, type ListSearch } from '../../lib/listSearch';
import { EmptyState } from '../EmptyState';
import { ErrorState } from '../ErrorState';
import classes from './DataTable.module.css';
import { HeaderCell } from './HeaderCell';
import { Pagination } from './Pagination';
import { TableToolbar } from './TableToolbar';
import { useRowKeys } from './useRowKeys';
import { useTableView } from './useTableView';

declare module '@tanstack/react-table' {
  // The names of the type parameters are the library's; a declaration merges only when they agree.
  // eslint-disable-next-line @typescript-eslint/no-unused-vars
  interface ColumnMeta<TData extends RowData, TValue> {
    /** The name the server orders by; without it the column cannot be sorted. */
    sort?: string;
    align?: 'right';
    width?: number;
    hint?: string;
  }
}

interface DataTableProps<Row> {
  /** Names the table for screen readers and its preferences in the browser. */
  id: string;
  label: string;
  noun: [one: string, many: string];
  query: UseQueryResult<Page<Row>>;
  columns: ColumnDef<Row>[];
  rowId: (row: Row) => string;
  onOpen: (row: Row) => void;
  search: ListSearch;
  /** The order while the URL names none. */
  defaultSort: string;
  /** `replace` keeps typing out of the browser's history. */
  onSearch: (next: ListSearch, replace?: boolean) => void;
  filterHint: string;
  /** What the page is for, and the first thing to do; shown while there is nothing at all. */
  empty: ReactNode;
  /** Copy buttons and the like, at the end of the toolbar. */
  actions?: ReactNode;
}

/** The one table of the product: paged, ordered and filtered by the server, its state in the URL. */
export function DataTable<Row>(props: DataTableProps<Row>) {
  const { query, search, onSearch } = props;
  const view = useTableView(props.id);
  const rows = query.data?.results ?? [];
  const bodyRef = useRowKeys(rows.length);
  // The React Compiler is not used here, so the table's unstable functions do no harm.
  // eslint-disable-next-line react-hooks/incompatible-library
  const table = useReactTable({
    data: rows,
    columns: props.columns,
    getRowId: props.rowId,
    getCoreRowModel: getCoreRowModel(),
    manualPagination: true,
    manualSorting: true,
    state: { columnVisibility: view.visibility },
  });
  const change = (part: ListChange) => onSearch(changeList(search, part));
  const columnCount = table.getVisibleLeafColumns().length;

  return (
    <div className={classes.frame}>
      <TableToolbar
        filterHint={props.filterHint}
        filter={search.q ?? ''}
        onFilter={(q) => onSearch(changeList(search, { q }), true)}
        updatedAt={query.dataUpdatedAt}
        failedRefresh={query.isError && query.data !== undefined}
        columns={table.getAllLeafColumns()}
        view={view}
        actions={props.actions}
      />
      <div className={classes.scroll}>
        <table
          className={clsx(classes.table, view.density === 'comfortable' && classes.comfortable)}
          aria-label={props.label}
          aria-busy={query.isPending}
        >
          <thead>
            {table.getHeaderGroups().map((group) => (
              <tr key={group.id}>
                {group.headers.map((header) => (
                  <HeaderCell key={header.id} header={header} sort={search.sort ?? props.defaultSort} onSort={(sort) => change({ sort })} />
                ))}
              </tr>
            ))}
          </thead>
          <tbody ref={bodyRef}>
            {query.isPending && <SkeletonRows columns={columnCount} />}
            {table.getRowModel().rows.map((row, index) => (
              <tr
                key={row.id}
                tabIndex={-1}
                className={classes.row}
                data-row={index}
                onClick={(event) => openUnlessControl(event, () => props.onOpen(row.original))}
                onKeyDown={(event) => {
                  if (event.key === 'Enter' && event.target === event.currentTarget) props.onOpen(row.original);
                }}
              >
                {row.getVisibleCells().map((cell) => (
                  <td key={cell.id} data-align={cell.column.columnDef.meta?.align}>
                    {flexRender(cell.column.columnDef.cell, cell.getContext())}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <TableMessage {...props} />
      {query.data && query.data.count > 0 && (
        <Pagination
          noun={props.noun}
          count={query.data.count}
          page={search.page ?? 1}
          size={search.size ?? DEFAULT_PAGE_SIZE}
          onPage={(page) => change({ page })}
          onSize={(size) => change({ size })}
        />
      )}
    </div>
  );
}

/** A click on the row opens it, but not one on a link or button in it, nor the end of a selection. */
function openUnlessControl(event: MouseEvent<HTMLElement>, open: () => void) {
  if ((event.target as HTMLElement).closest('a, button, input')) return;
  if (window.getSelection()?.toString()) return;
  open();
}

function TableMessage<Row>({ query, search, onSearch, noun, empty }: DataTableProps<Row>) {
  if (query.isError && !query.data) {
    return (
      <ErrorState
        title={`The ${noun[1]} could not be loaded`}
        error={query.error}
        onRetry={() => void query.refetch()}
      />
    );
  }
  if (!query.data || query.data.results.length > 0) return null;
  if (!search.q && query.data.count === 0) return <>{empty}</>;
  return (
    <EmptyState
      icon={<IconFilterOff size={28} stroke={1.5} />}
      title={search.q ? `No ${noun[0]} matches “${search.q}”` : 'This page is past the end'}
      action={
        <button type="button" className={classes.clear} onClick={() => onSearch(search.sort ? { sort: search.sort } : {})}>
          {search.q ? 'Clear the filter' : 'Go to the first page'}
        </button>
      }
    />
  );
}

function SkeletonRows({ columns }: { columns: number }) {
  return Array.from({ length: 6 }, (_, row) => (
    <tr key={row} aria-hidden>
      {Array.from({ length: columns }, (_unused, column) => (
        <td key={column}>
          <Skeleton height={10} width={column === 0 ? '70%' : '45%'} radius="sm" />
        </td>
      ))}
    </tr>
  ));
}
