import { Button, PasswordInput, TextInput } from '@mantine/core';
import { useForm } from '@mantine/form';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { getRouteApi, useRouter } from '@tanstack/react-router';
import { useEffect } from 'react';

import { ApiError } from '../../api/client';
import { logIn, safeNext, sessionQuery } from '../../api/session';
import { MutationError } from '../../components/actions/MutationError';
import { Logo } from '../../shell/Logo';
import classes from './LoginPage.module.css';

const route = getRouteApi('/login');

export function LoginPage() {
  const { next } = route.useSearch();
  const router = useRouter();
  const client = useQueryClient();
  // Also sets the CSRF cookie that the form needs.
  const session = useQuery(sessionQuery);
  useEffect(() => {
    document.title = 'Sign in · KVCM Platform';
  }, []);

  const form = useForm({
    initialValues: { username: '', password: '' },
    validate: {
      username: (value) => (value.trim() ? null : 'Enter your username'),
      password: (value) => (value ? null : 'Enter your password'),
    },
  });
  const signIn = useMutation({
    mutationFn: async (values: typeof form.values) => {
      await logIn(values.username.trim(), values.password);
      // What an earlier account saw is not this one's; then learn who this is before moving on.
      client.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== 'session' });
      await client.query({ ...sessionQuery, staleTime: 0 });
    },
    onSuccess: () => router.history.replace(safeNext(next)),
    onError: () => form.setFieldValue('password', ''),
  });

  return (
    <main className={classes.page}>
      <div className={classes.card}>
        <div className={classes.brand}>
          <Logo size={36} />
          <div>
            <h1 className={classes.title}>KVCM Platform</h1>
            <p className="muted">Manager of the KV cache</p>
          </div>
        </div>
        <form className={classes.form} onSubmit={form.onSubmit((values) => signIn.mutate(values))} noValidate>
          <TextInput
            size="sm"
            label="Username"
            autoComplete="username"
            autoCapitalize="none"
            spellCheck={false}
            data-autofocus
            {...form.getInputProps('username')}
          />
          <PasswordInput label="Password" autoComplete="current-password" {...form.getInputProps('password')} />
          {signIn.error && <LoginError error={signIn.error} />}
          {session.isError && !signIn.error && <MutationError error={session.error} />}
          <Button type="submit" size="sm" fullWidth loading={signIn.isPending}>
            Sign in
          </Button>
        </form>
        {next && <p className={classes.hint}>Afterwards you return to the page you came from.</p>}
      </div>
    </main>
  );
}

function LoginError({ error }: { error: Error }) {
  if (error instanceof ApiError && error.status === 401) {
    return <MutationError error={error}> Check the username and the password.</MutationError>;
  }
  return <MutationError error={error} />;
}
