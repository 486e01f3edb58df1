/** Events of runs, for laws of whatever takes them. */
import type { TrackedEvent } from '@tandem-rl/tracking'
import fc from 'fast-check'

const text = fc.string({ unit: 'grapheme', maxLength: 12 })
const name = text.filter((each) => each !== '__proto__')
const at = fc.integer({ min: 0, max: 2 ** 42 })
const step = fc.nat({ max: 1000 })
const numbers = fc.dictionary(
  name,
  fc.double().map((x) => (Object.is(x, -0) ? 0 : x)),
  { maxKeys: 4, noNullPrototype: true },
)
const spans = fc.array(fc.record({ name, from: at, to: at }), { maxLength: 3 })
const setting = fc.oneof(text, fc.integer(), fc.boolean(), fc.constant(null))
const place = { at, step }

/** Any event. */
export const anyTrackedEvent: fc.Arbitrary<TrackedEvent> = fc.oneof(
  fc.record({
    ...{ type: fc.constant('start' as const), at, run: text, from: step },
    settings: fc.dictionary(name, setting, { maxKeys: 4, noNullPrototype: true }),
  }),
  fc.record(
    { type: fc.constant('scalars' as const), ...place, values: numbers, seconds: numbers, spans },
    { requiredKeys: ['type', 'at', 'step', 'values', 'seconds'] },
  ),
  fc.record({
    ...{ type: fc.constant('samples' as const), ...place },
    samples: fc.array(fc.record({ name: text, text }), { maxLength: 3 }),
  }),
  fc.record(
    { type: fc.constant('saved' as const), ...place, what: text, path: text, spans },
    { requiredKeys: ['type', 'at', 'step', 'what', 'path'] },
  ),
  fc.record({ type: fc.constantFrom('alarm' as const, 'failure' as const), ...place, name: text, text }),
  fc.record({
    ...{ type: fc.constant('end' as const), ...place },
    status: fc.constantFrom('finished' as const, 'interrupted' as const, 'failed' as const),
  }),
)
