import type { Departure, Storage } from '../../api/types';
import { duration } from '../../lib/format';

/** How long until nothing is left, in words. */
export function etaWords({ eta_seconds: eta, bytes_left: left }: Departure): string {
  if (left === 0) return 'now';
  return eta === null ? 'not known' : duration(eta);
}

/** What is going on, beside the title. */
export function departureWords({ departure, abandoned }: Storage): string {
  if (departure === null) return '';
  if (departure.kind === 'leaving') {
    return abandoned ? 'given up: its blocks are forgotten' : 'its blocks are removed, then it goes';
  }
  if (departure.bytes_left === 0) return 'nothing is left: it can be removed';
  return 'no new blocks; those it holds are served until they are reclaimed or moved';
}
