import { ActionIcon, Popover } from '@mantine/core';
import { IconBell, IconBellOff } from '@tabler/icons-react';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';

import type { Alert } from '../../api/types';
import { StatusBadge, Tag } from '../../components/status/StatusBadge';
import { Time } from '../../components/values';
import { useFiringAlerts } from '../../live/LiveProvider';
import { AlertActions, SilenceDialog } from './AlertActions';
import classes from './AlertBell.module.css';
import { bellWords, SEVERITIES, total, worst } from './severity';
import { Subject } from './Subject';

const SHOWN = 6;

/** How many alerts fire, on every page, with the most severe of them at hand. */
export function AlertBell() {
  const [open, setOpen] = useState(false);
  const [silencing, setSilencing] = useState<Alert | null>(null);
  const { data } = useFiringAlerts();
  const firing = data ? total(data) : 0;
  const words = bellWords(data);
  const close = () => setOpen(false);
  return (
    <>
      <Popover opened={open} onChange={setOpen} position="bottom-end" width={420} shadow="md" trapFocus returnFocus>
        <Popover.Target>
          <ActionIcon
            aria-label={words}
            title={words}
            aria-expanded={open}
            className={classes.bell}
            onClick={() => setOpen(!open)}
          >
            {data ? <IconBell size={18} stroke={1.6} /> : <IconBellOff size={18} stroke={1.6} />}
            {firing > 0 && (
              <span className={classes.count} data-severity={data && worst(data)} aria-hidden>
                {firing > 99 ? '99+' : firing}
              </span>
            )}
          </ActionIcon>
        </Popover.Target>
        <Popover.Dropdown className={classes.dropdown}>
          {data && firing > 0 ? (
            <ul className={classes.list}>
              {data.firing.slice(0, SHOWN).map((alert) => (
                <FiringAlert
                  key={alert.id}
                  alert={alert}
                  onFollow={close}
                  onSilence={() => {
                    close();
                    setSilencing(alert);
                  }}
                />
              ))}
            </ul>
          ) : (
            <p className={classes.calm}>{data ? 'Nothing is firing.' : 'What fires is not known now.'}</p>
          )}
          <div className={classes.foot}>
            <Link to="/alerts" onClick={close}>
              All alerts
            </Link>
            {firing > SHOWN && <span className="muted">{firing - SHOWN} more fire</span>}
          </div>
        </Popover.Dropdown>
      </Popover>
      <span className="visually-hidden" aria-live="polite">
        {words}
      </span>
      {silencing && <SilenceDialog alert={silencing} onClose={() => setSilencing(null)} />}
    </>
  );
}

interface FiringAlertProps {
  alert: Alert;
  onFollow: () => void;
  onSilence: () => void;
}

function FiringAlert({ alert, onFollow, onSilence }: FiringAlertProps) {
  const { tone, word, hint } = SEVERITIES[alert.severity];
  return (
    <li className={classes.alert}>
      <div className={classes.line}>
        <StatusBadge tone={tone} hint={hint}>
          {word}
        </StatusBadge>
        <Subject alert={alert} onFollow={onFollow} />
        <span className={classes.since}>
          <Time value={alert.fired_at} />
        </span>
      </div>
      <p className={classes.message}>{alert.message}</p>
      <div className={classes.line}>
        <AlertActions alert={alert} onSilence={onSilence} />
        {alert.acknowledged && <Tag hint={alert.acknowledge_note}>{`Taken on by ${alert.acknowledged_by}`}</Tag>}
        {alert.silenced && <Tag hint="Receivers are not told">Silenced</Tag>}
      </div>
    </li>
  );
}
