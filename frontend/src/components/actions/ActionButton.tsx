import { Button, Tooltip, type ButtonProps } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';

import { refusalFor, sessionQuery } from '../../api/session';
import type { Role } from '../../api/types';

interface ActionButtonProps extends ButtonProps {
  needs: Role;
  onClick: () => void;
  children: string;
  /** A reason besides the role, for example the object's state. */
  blockedBecause?: string | null;
}

/** A button that is not hidden from those who may not press it: it says which role is missing. */
export function ActionButton({ needs, onClick, children, blockedBecause, ...rest }: ActionButtonProps) {
  const { data: session } = useQuery(sessionQuery);
  const reason = refusalFor(session, needs) ?? blockedBecause ?? null;
  if (reason === null) {
    return (
      <Button variant="default" {...rest} onClick={onClick}>
        {children}
      </Button>
    );
  }
  // `data-disabled` instead of `disabled`: a disabled button takes no focus and shows no reason.
  return (
    <Tooltip label={reason}>
      <Button
        variant="default"
        {...rest}
        data-disabled
        aria-disabled
        aria-description={reason}
        onClick={(event) => event.preventDefault()}
      >
        {children}
      </Button>
    </Tooltip>
  );
}
