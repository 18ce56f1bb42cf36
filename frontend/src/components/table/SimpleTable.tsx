import type { ReactNode } from 'react';

import classes from './DataTable.module.css';

export interface SimpleColumn<Row> {
  header: string;
  align?: 'right';
  hint?: string;
  cell: (row: Row) => ReactNode;
}

interface SimpleTableProps<Row> {
  label: string;
  columns: SimpleColumn<Row>[];
  rows: readonly Row[];
  rowKey: (row: Row) => string;
}

/** A short table inside a panel: all rows at hand, nothing to page or order. */
export function SimpleTable<Row>({ label, columns, rows, rowKey }: SimpleTableProps<Row>) {
  return (
    <div className={classes.scroll}>
      <table className={classes.table} aria-label={label}>
        <thead>
          <tr>
            {columns.map(({ header, align, hint }) => (
              <th key={header} scope="col" data-align={align} title={hint}>
                {header}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={rowKey(row)}>
              {columns.map(({ header, align, cell }) => (
                <td key={header} data-align={align}>
                  {cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
