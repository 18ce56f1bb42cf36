import { ActionIcon, NativeSelect } from '@mantine/core';
import { IconChevronLeft, IconChevronRight } from '@tabler/icons-react';

import { exact } from '../../lib/format';
import { PAGE_SIZES } from '../../lib/listSearch';
import classes from './DataTable.module.css';

interface PaginationProps {
  noun: [one: string, many: string];
  count: number;
  page: number;
  size: number;
  onPage: (page: number) => void;
  onSize: (size: number) => void;
}

export function Pagination({ noun, count, page, size, onPage, onSize }: PaginationProps) {
  const pages = Math.max(1, Math.ceil(count / size));
  const first = (page - 1) * size + 1;
  const last = Math.min(count, page * size);
  const range = count > size ? `${exact(first)}–${exact(last)} of ${exact(count)}` : exact(count);
  return (
    <div className={classes.foot}>
      <span className="muted" aria-live="polite">
        {range} {count === 1 ? noun[0] : noun[1]}
      </span>
      <div className={classes.pager}>
        <label className={classes.size} htmlFor="page-size">
          <span className="muted">Rows a page</span>
          <NativeSelect
            id="page-size"
            size="xs"
            w={70}
            value={String(size)}
            data={PAGE_SIZES.map(String)}
            onChange={(event) => onSize(Number(event.currentTarget.value))}
          />
        </label>
        <ActionIcon aria-label="Previous page" disabled={page <= 1} onClick={() => onPage(page - 1)}>
          <IconChevronLeft size={16} />
        </ActionIcon>
        <span>
          {exact(page)} / {exact(pages)}
        </span>
        <ActionIcon aria-label="Next page" disabled={page >= pages} onClick={() => onPage(page + 1)}>
          <IconChevronRight size={16} />
        </ActionIcon>
      </div>
    </div>
  );
}
