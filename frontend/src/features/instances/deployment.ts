import type { ModelDeployment } from '../../api/types';

/** "8 / 1 / 2"; a size that the engine did not name is a dash. */
export function parallelism({ tp_size: tp, pp_size: pp, dp_size: dp }: ModelDeployment): string {
  return [tp, pp, dp].map((size) => (size > 0 ? String(size) : '–')).join(' / ');
}

const QUERY_NAMES = ['unspecified', 'batch get', 'prefix match', 'sliding window', 'prefix match with Mamba'];

/** The protocol's query types by their numbers. */
export function queryName(type: number): string {
  return QUERY_NAMES[type] ?? `type ${type}`;
}
