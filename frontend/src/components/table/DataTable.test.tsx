// @vitest-environment jsdom
import type { UseQueryResult } from '@tanstack/react-query';
import { screen } from '@testing-library/react';
import userEvent from '@testing-library/user-event';
import { describe, expect, it, vi } from 'vitest';

import { ApiError } from '../../api/client';
import type { Page } from '../../api/types';
import type { ListSearch } from '../../lib/listSearch';
import { draw } from '../../test/dom';
import { DataTable } from './DataTable';

interface Row {
  name: string;
}
type Query = UseQueryResult<Page<Row>>;

const page = (count: number, names: string[]): Page<Row> => ({ count, results: names.map((name) => ({ name })) });

function loaded(data: Page<Row>): Query {
  return { data, isPending: false, isError: false, error: null, dataUpdatedAt: Date.now() } as unknown as Query;
}

function show(query: Query, search: ListSearch = {}) {
  const onSearch = vi.fn();
  const onOpen = vi.fn();
  draw(
    <DataTable<Row>
      id="test"
      label="Storages"
      noun={['storage', 'storages']}
      query={query}
      columns={[{ id: 'name', header: 'Name', meta: { sort: 'name' }, cell: ({ row }) => row.original.name }]}
      rowId={({ name }) => name}
      onOpen={onOpen}
      search={search}
      defaultSort="name"
      onSearch={onSearch}
      filterHint="Filter by name"
      empty={<p>First add one</p>}
    />,
  );
  return { onSearch, onOpen };
}

describe('DataTable', () => {
  it('shows rows, their number and the order', () => {
    show(loaded(page(2, ['nfs_01', 'nfs_02'])));
    expect(screen.getAllByRole('row')).toHaveLength(3);
    expect(screen.getByText('2 storages')).toBeDefined();
    expect(screen.getByRole('columnheader', { name: 'Name' }).getAttribute('aria-sort')).toBe('ascending');
  });

  it('opens a row by click and by Enter', async () => {
    const { onOpen } = show(loaded(page(1, ['nfs_01'])));
    await userEvent.click(screen.getByText('nfs_01'));
    await userEvent.keyboard('{Enter}');
    expect(onOpen.mock.calls).toEqual([[{ name: 'nfs_01' }], [{ name: 'nfs_01' }]]);
  });

  it('walks over rows with j and k', async () => {
    show(loaded(page(2, ['nfs_01', 'nfs_02'])));
    await userEvent.keyboard('jj');
    expect(document.activeElement?.textContent).toBe('nfs_02');
    await userEvent.keyboard('k');
    expect(document.activeElement?.textContent).toBe('nfs_01');
  });

  it('asks for the next page and keeps the filter', async () => {
    const { onSearch } = show(loaded(page(120, ['nfs_01'])), { q: 'nfs' });
    await userEvent.click(screen.getByRole('button', { name: 'Next page' }));
    expect(onSearch).toHaveBeenCalledWith({ q: 'nfs', page: 2 });
  });

  it('filters once the typing pauses, from the first page', async () => {
    const { onSearch } = show(loaded(page(120, ['nfs_01'])), { page: 2 });
    await userEvent.type(screen.getByRole('searchbox'), 'abc');
    await vi.waitFor(() => expect(onSearch).toHaveBeenCalledWith({ q: 'abc' }, true));
    expect(onSearch).toHaveBeenCalledOnce();
  });

  it('tells an empty list from one that the filter emptied', () => {
    show(loaded(page(0, [])));
    expect(screen.getByText('First add one')).toBeDefined();
  });

  it('offers to clear a filter without matches', async () => {
    const { onSearch } = show(loaded(page(0, [])), { q: 'zzz' });
    expect(screen.getByText('No storage matches “zzz”')).toBeDefined();
    await userEvent.click(screen.getByRole('button', { name: 'Clear the filter' }));
    expect(onSearch).toHaveBeenCalledWith({});
  });

  it('says what failed, with code and request id, and tries again', async () => {
    const refetch = vi.fn();
    const error = new ApiError({ status: 503, code: 'service_not_ready', message: 'down', requestId: 'r-1' });
    show({ data: undefined, isPending: false, isError: true, error, refetch, dataUpdatedAt: 0 } as unknown as Query);
    const alert = screen.getByRole('alert');
    for (const text of ['The storages could not be loaded', 'down', 'service_not_ready', 'r-1']) {
      expect(alert.textContent).toContain(text);
    }
    await userEvent.click(screen.getByRole('button', { name: 'Try again' }));
    expect(refetch).toHaveBeenCalledOnce();
  });

  it('keeps old rows when a refresh fails, and says so', () => {
    const query = { ...loaded(page(1, ['nfs_01'])), isError: true, error: new Error('gone') } as unknown as Query;
    show(query);
    expect(screen.getByText('nfs_01')).toBeDefined();
    expect(screen.getByRole('status').textContent).toContain('Refresh failed');
  });
});
