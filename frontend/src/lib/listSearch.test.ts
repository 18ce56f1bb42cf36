import { describe, expect, it } from 'vitest';

import { changeList, listQuery, nextSort, parseListSearch } from './listSearch';

describe('parseListSearch', () => {
  it('reads what a list wrote', () => {
    expect(parseListSearch({ page: 3, size: 100, sort: '-name', q: 'nfs' })).toEqual({
      page: 3,
      size: 100,
      sort: '-name',
      q: 'nfs',
    });
  });

  it('reads the same from text', () => {
    expect(parseListSearch({ page: '3', size: '25', q: 42 })).toEqual({ page: 3, size: 25, q: '42' });
  });

  it('drops nonsense and defaults', () => {
    expect(parseListSearch({ page: 1, size: 7, sort: 'name;drop', q: '   ' })).toEqual({});
    expect(parseListSearch({ page: -2, size: 50, sort: 4, q: null })).toEqual({});
    expect(parseListSearch({ page: 'x' })).toEqual({});
  });
});

describe('changeList', () => {
  it('goes back to the first page for a new filter or order', () => {
    expect(changeList({ page: 4, q: 'a' }, { q: 'b' })).toEqual({ q: 'b' });
    expect(changeList({ page: 4, q: 'a' }, { sort: 'name' })).toEqual({ q: 'a', sort: 'name' });
  });

  it('keeps filter and order when only the page moves', () => {
    expect(changeList({ page: 1, q: 'a', sort: 'name' }, { page: 2 })).toEqual({ page: 2, q: 'a', sort: 'name' });
  });
});

describe('nextSort', () => {
  it('cycles', () => {
    expect(nextSort(undefined, 'name')).toBe('name');
    expect(nextSort('name', 'name')).toBe('-name');
    expect(nextSort('-name', 'name')).toBeUndefined();
    expect(nextSort('weight', 'name')).toBe('name');
  });
});

describe('listQuery', () => {
  it('always asks for a bounded page', () => {
    expect(listQuery({}, 'name')).toEqual({ page: undefined, page_size: 50, ordering: 'name', search: undefined });
  });
});
