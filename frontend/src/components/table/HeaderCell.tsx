import { IconArrowDown, IconArrowsSort, IconArrowUp } from '@tabler/icons-react';
import { flexRender, type Header } from '@tanstack/react-table';

import { nextSort } from '../../lib/listSearch';
import classes from './DataTable.module.css';

interface HeaderCellProps<Row> {
  header: Header<Row, unknown>;
  sort: string | undefined;
  onSort: (sort: string | undefined) => void;
}

export function HeaderCell<Row>({ header, sort, onSort }: HeaderCellProps<Row>) {
  const { meta } = header.column.columnDef;
  const label = flexRender(header.column.columnDef.header, header.getContext());
  const style = meta?.width ? { width: meta.width } : undefined;
  if (!meta?.sort) {
    return (
      <th scope="col" data-align={meta?.align} style={style} title={meta?.hint}>
        {label}
      </th>
    );
  }
  const name = meta.sort;
  const direction = sort === name ? 'ascending' : sort === `-${name}` ? 'descending' : 'none';
  const Arrow = direction === 'none' ? IconArrowsSort : direction === 'ascending' ? IconArrowUp : IconArrowDown;
  return (
    <th scope="col" data-align={meta.align} style={style} aria-sort={direction} title={meta.hint}>
      <button type="button" className={classes.sort} data-on={direction !== 'none'} onClick={() => onSort(nextSort(sort, name))}>
        {label}
        <Arrow size={12} aria-hidden />
      </button>
    </th>
  );
}
