/** What a list page keeps in its URL, so that a view can be shared and the back button works. */

export const PAGE_SIZES = [25, 50, 100, 250] as const;
export const DEFAULT_PAGE_SIZE = 50;

export interface ListSearch {
  page?: number;
  size?: number;
  /** A column's ordering name; a leading minus means descending. */
  sort?: string;
  q?: string;
}

/** Reads an untrusted query string; what makes no sense is dropped, not an error page. */
export function parseListSearch(raw: Record<string, unknown>): ListSearch {
  const result: ListSearch = {};
  const page = Number(raw.page);
  if (Number.isInteger(page) && page > 1) result.page = page;
  const size = Number(raw.size);
  if (size !== DEFAULT_PAGE_SIZE && (PAGE_SIZES as readonly number[]).includes(size)) result.size = size;
  if (typeof raw.sort === 'string' && /^-?[a-z][a-z0-9_]*$/.test(raw.sort)) result.sort = raw.sort;
  const q = typeof raw.q === 'string' || typeof raw.q === 'number' ? String(raw.q).trim() : '';
  if (q) result.q = q.slice(0, 200);
  return result;
}

/** The parameters of the REST list for a page's URL state. */
export function listQuery(search: ListSearch, defaultSort?: string): Record<string, string | number | undefined> {
  return {
    page: search.page,
    page_size: search.size ?? DEFAULT_PAGE_SIZE,
    ordering: search.sort ?? defaultSort,
    search: search.q,
  };
}

/** A part of the state to set; undefined takes it away. */
export type ListChange = { [Key in keyof ListSearch]?: ListSearch[Key] | undefined };

/** A new filter or order starts at the first page: page 7 of other rows means nothing. */
export function changeList(current: ListSearch, change: ListChange): ListSearch {
  const merged = { ...current, ...change };
  if (!('page' in change)) delete merged.page;
  return parseListSearch({ ...merged });
}

/** unsorted → ascending → descending → unsorted. */
export function nextSort(current: string | undefined, column: string): string | undefined {
  if (current === column) return `-${column}`;
  if (current === `-${column}`) return undefined;
  return column;
}

export const ALERT_STATES = ['firing', 'pending', 'resolved', 'all'] as const;
export type AlertView = (typeof ALERT_STATES)[number];

/** The list of alerts shows what fires unless the URL says otherwise. */
export interface AlertSearch extends ListSearch {
  state?: AlertView;
}

export function parseAlertSearch(raw: Record<string, unknown>): AlertSearch {
  const state = ALERT_STATES.find((each) => each === raw.state);
  return { ...parseListSearch(raw), ...(state && state !== 'firing' ? { state } : {}) };
}
