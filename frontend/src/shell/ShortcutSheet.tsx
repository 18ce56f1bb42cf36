import { Modal } from '@mantine/core';

import { PLACES } from './places';
import classes from './ShortcutSheet.module.css';

const GROUPS: { title: string; keys: [string[], string][] }[] = [
  { title: 'Go to', keys: PLACES.map(({ key, label }) => [['g', key], label]) },
  {
    title: 'In a list',
    keys: [
      [['/'], 'Filter'],
      [['j'], 'Next row'],
      [['k'], 'Previous row'],
      [['Enter'], 'Open the row'],
    ],
  },
  {
    title: 'Everywhere',
    keys: [
      [['p'], 'Pause or resume live updates'],
      [['r'], 'Refresh'],
      [['?'], 'This sheet'],
      [['Esc'], 'Close'],
    ],
  },
];

export function ShortcutSheet({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  return (
    <Modal opened={opened} onClose={onClose} title="Keyboard shortcuts" size="lg">
      <div className={classes.groups}>
        {GROUPS.map(({ title, keys }) => (
          <section key={title}>
            <h3 className={classes.title}>{title}</h3>
            <dl className={classes.keys}>
              {keys.map(([strokes, meaning]) => (
                <div key={meaning} className={classes.row}>
                  <dt>
                    {strokes.map((stroke) => (
                      <kbd key={stroke} className={classes.key}>
                        {stroke}
                      </kbd>
                    ))}
                  </dt>
                  <dd>{meaning}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
    </Modal>
  );
}
