// @vitest-environment jsdom
import { screen } from '@testing-library/react';
import userEvent from '@testing-library/user-event';
import { describe, expect, it, vi } from 'vitest';

import { draw } from '../../test/dom';
import { ActionButton } from './ActionButton';
import { ConfirmDialog } from './ConfirmDialog';

describe('ActionButton', () => {
  it('acts for those who may', async () => {
    const act = vi.fn();
    draw(<ActionButton needs="operator" onClick={act}>Drain</ActionButton>, 'admin');
    await userEvent.click(screen.getByRole('button', { name: 'Drain' }));
    expect(act).toHaveBeenCalledOnce();
  });

  it('stays in place for a viewer and says which role is missing', async () => {
    const act = vi.fn();
    draw(<ActionButton needs="operator" onClick={act}>Drain</ActionButton>, 'viewer');
    const button = screen.getByRole('button', { name: 'Drain' });
    expect(button.getAttribute('aria-disabled')).toBe('true');
    expect(button.getAttribute('aria-description')).toContain('Needs the role operator');
    await userEvent.click(button);
    expect(act).not.toHaveBeenCalled();
  });
});

describe('ConfirmDialog', () => {
  it('waits for the name', async () => {
    const remove = vi.fn();
    draw(
      <ConfirmDialog
        opened
        onClose={() => undefined}
        title="Remove the instance"
        consequences={['12 blocks are deleted.']}
        typedName="qwen-1"
        confirmLabel="Remove"
        pending={false}
        error={null}
        onConfirm={remove}
      />,
    );
    const button = screen.getByRole<HTMLButtonElement>('button', { name: 'Remove' });
    await userEvent.type(screen.getByRole('textbox'), 'qwen-');
    expect(button.disabled).toBe(true);
    await userEvent.type(screen.getByRole('textbox'), '1{Enter}');
    expect(remove).toHaveBeenCalledOnce();
  });
});
