import { useMantineColorScheme, type MantineColorScheme } from '@mantine/core';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect, useRef } from 'react';

import { saveTheme, sessionQuery } from '../api/session';
import type { ThemeChoice } from '../api/types';

const toScheme = (choice: ThemeChoice): MantineColorScheme => (choice === 'system' ? 'auto' : choice);
const toChoice = (scheme: MantineColorScheme): ThemeChoice => (scheme === 'auto' ? 'system' : scheme);

/** The account's theme wins over the browser's, once for each signing-in. */
export function useThemeOfAccount(): void {
  const { data: session } = useQuery(sessionQuery);
  const { setColorScheme } = useMantineColorScheme();
  const appliedFor = useRef<string | null>(null);
  useEffect(() => {
    if (!session?.username || appliedFor.current === session.username) return;
    appliedFor.current = session.username;
    setColorScheme(toScheme(session.theme));
  }, [session, setColorScheme]);
}

export function useThemeChoice(): { choice: ThemeChoice; choose: (choice: ThemeChoice) => void } {
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const client = useQueryClient();
  const choose = (choice: ThemeChoice) => {
    setColorScheme(toScheme(choice));
    client.setQueryData(sessionQuery.queryKey, (session) => session && { ...session, theme: choice });
    // The browser keeps the choice by itself; a failure only means that other browsers will not know.
    saveTheme(choice).catch(() => undefined);
  };
  return { choice: toChoice(colorScheme), choose };
}
