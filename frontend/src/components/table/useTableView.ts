import type { VisibilityState } from '@tanstack/react-table';

import { useLocal } from '../../lib/useLocal';

export type Density = 'compact' | 'comfortable';

export interface TableView {
  visibility: VisibilityState;
  toggleColumn: (id: string, visible: boolean) => void;
  density: Density;
  setDensity: (density: Density) => void;
}

const readDensity = (raw: unknown): Density => (raw === 'comfortable' ? 'comfortable' : 'compact');

function readHidden(raw: unknown): string[] {
  return Array.isArray(raw) ? raw.filter((id): id is string => typeof id === 'string') : [];
}

/** How this browser likes to see a table: hidden columns of each, one density for all. */
export function useTableView(tableId: string): TableView {
  const [hidden, setHidden] = useLocal(`kvcm-table-${tableId}`, readHidden);
  const [density, setDensity] = useLocal('kvcm-density', readDensity);
  return {
    visibility: Object.fromEntries(hidden.map((id) => [id, false])),
    toggleColumn: (id, visible) => setHidden(visible ? hidden.filter((other) => other !== id) : [...hidden, id]),
    density,
    setDensity,
  };
}
