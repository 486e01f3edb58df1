const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/**
 * Lists the settings that differ between two runs, as dotted paths with both values.
 *
 * @example
 * differingSettings({ learner: { seed: 1 } }, { learner: { seed: 2 } }) // [{ path: 'learner.seed', was: 1, is: 2 }]
 */
export const differingSettings = (
  before: unknown,
  now: unknown,
  path: readonly string[] = [],
): readonly { readonly path: string; readonly was: unknown; readonly is: unknown }[] => {
  if (isRecord(before) && isRecord(now))
    return [...new Set([...Object.keys(before), ...Object.keys(now)])].flatMap((name) =>
      differingSettings(before[name], now[name], [...path, name]),
    )
  return JSON.stringify(before) === JSON.stringify(now) ? [] : [{ path: path.join('.'), was: before, is: now }]
}
