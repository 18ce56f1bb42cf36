/** Rows of cache blocks, the last of them not yet filled. */
export function Logo({ size }: { size: number }) {
  const cells = [0, 1, 2, 3, 4, 5, 6, 7, 8];
  return (
    <svg viewBox="0 0 32 32" width={size} height={size} aria-hidden focusable="false">
      <rect width="32" height="32" rx="7" fill="var(--k-accent-fill)" />
      {cells.map((cell) => (
        <rect
          key={cell}
          x={7 + (cell % 3) * 6.5}
          y={8 + Math.floor(cell / 3) * 5.8}
          width="5"
          height="4.4"
          rx="1"
          fill="var(--k-on-accent)"
          opacity={cell === 5 || cell > 6 ? 0.4 : 1}
        />
      ))}
    </svg>
  );
}
