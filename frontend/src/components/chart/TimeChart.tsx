import 'uplot/dist/uPlot.min.css';

import { ActionIcon, Tooltip, useComputedColorScheme } from '@mantine/core';
import { useElementSize } from '@mantine/hooks';
import { IconChartLine, IconTable } from '@tabler/icons-react';
import { useEffect, useRef, useState, type ReactNode } from 'react';
import uPlot from 'uplot';

import { NOTHING } from '../../lib/format';
import { clock } from '../../lib/time';
import { chartSeries } from '../../theme/tokens';
import { Panel } from '../Panel';
import { SimpleTable } from '../table/SimpleTable';
import { chartOptions, type SeriesStyle } from './options';
import { summaryOf, type Table } from './series';
import classes from './TimeChart.module.css';

interface TimeChartProps {
  title: string;
  /** What it shows, in other words than the title: figures have the sole right to their names. */
  spokenName: string;
  note?: ReactNode;
  series: readonly SeriesStyle[];
  data: Table;
  format: (value: number) => string;
  top?: number;
  binary?: boolean;
  syncKey: string;
}

const HEIGHT = 176;
const TABLE_ROWS = 60;

/** A chart over time with its values in words above it, and the same as a table on demand. */
export function TimeChart(props: TimeChartProps) {
  const [asTable, setAsTable] = useState(false);
  const [cursor, setCursor] = useState<number | null>(null);
  const toggle = asTable ? 'Show as chart' : 'Show as table';
  return (
    <Panel
      title={props.title}
      note={props.note}
      actions={
        <Tooltip label={toggle}>
          <ActionIcon size={22} aria-label={`${toggle}: ${props.spokenName}`} onClick={() => setAsTable(!asTable)}>
            {asTable ? <IconChartLine size={15} /> : <IconTable size={15} />}
          </ActionIcon>
        </Tooltip>
      }
    >
      <Legend {...props} cursor={asTable ? null : cursor} />
      {asTable ? <ValueTable {...props} /> : <Plot {...props} onCursor={setCursor} />}
      <p className="visually-hidden">{spoken(props)}</p>
    </Panel>
  );
}

function spoken({ series, data, format }: TimeChartProps): string {
  return series
    .map(({ label }, index) => {
      const summary = summaryOf(data[index + 1] as (number | null)[]);
      if (!summary) return `${label}: no values yet.`;
      return `${label}: now ${format(summary.latest)}, between ${format(summary.lowest)} and ${format(summary.highest)}.`;
    })
    .join(' ');
}

function Legend({ series, data, format, cursor }: TimeChartProps & { cursor: number | null }) {
  const scheme = useComputedColorScheme('light');
  const last = data[0].length - 1;
  const index = cursor === null || cursor > last ? last : cursor;
  const time = data[0][index];
  return (
    <div className={classes.legend}>
      {series.map(({ label, colour }, position) => {
        const value = data[position + 1]?.[index];
        return (
          <span key={label} className={classes.entry}>
            <span className={classes.key} style={{ background: chartSeries[scheme][colour] }} aria-hidden />
            {label} <strong>{typeof value === 'number' ? format(value) : NOTHING}</strong>
          </span>
        );
      })}
      <span className={classes.time}>{time === undefined ? '' : cursor === null ? 'now' : clock(time * 1000)}</span>
    </div>
  );
}

function Plot({ series, data, format, top, binary, syncKey, onCursor }: TimeChartProps & { onCursor: (index: number | null) => void }) {
  const theme = useComputedColorScheme('light');
  const { ref: sizeRef, width } = useElementSize<HTMLDivElement>();
  const holder = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const latest = useRef(data);
  useEffect(() => {
    latest.current = data;
    plot.current?.setData(data);
  }, [data]);

  const hasWidth = width > 0;
  useEffect(() => {
    if (!holder.current || !hasWidth) return;
    const options = chartOptions({ theme, series, format, top, binary, syncKey, onCursor }, holder.current.clientWidth, HEIGHT);
    const made = new uPlot(options, latest.current, holder.current);
    plot.current = made;
    return () => {
      made.destroy();
      plot.current = null;
    };
  }, [theme, series, format, top, binary, syncKey, onCursor, hasWidth]);

  useEffect(() => {
    if (hasWidth) plot.current?.setSize({ width, height: HEIGHT });
  }, [width, hasWidth]);

  return (
    <div ref={sizeRef} className={classes.plot} aria-hidden>
      <div ref={holder} />
      {data[0].length === 0 && <p className={classes.nothing}>Nothing yet: the first point comes within two seconds.</p>}
    </div>
  );
}

interface TableRow {
  time: number;
  values: (number | null)[];
}

function ValueTable({ spokenName, series, data, format }: TimeChartProps) {
  const rows: TableRow[] = data[0]
    .map((time, index) => ({ time, values: data.slice(1).map((column) => column[index] ?? null) }))
    .reverse()
    .slice(0, TABLE_ROWS);
  return (
    // Reachable by keyboard, so that it can be scrolled without a mouse.
    // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex
    <div className={classes.table} style={{ height: HEIGHT }} tabIndex={0}>
      <SimpleTable
        label={spokenName}
        rows={rows}
        rowKey={({ time }) => String(time)}
        columns={[
          { header: 'Time', cell: ({ time }: TableRow) => clock(time * 1000) },
          ...series.map(({ label }, index) => ({
            header: label,
            align: 'right' as const,
            cell: ({ values }: TableRow) => {
              const value = values[index];
              return typeof value === 'number' ? format(value) : NOTHING;
            },
          })),
        ]}
      />
    </div>
  );
}
