/** The heap of JavaScript. */
import { setFlagsFromString } from 'node:v8'

/** Growth of the heap, in percent, before the next full garbage collection. */
const GROWTH = 200

/**
 * Lets the heap of this process grow to three times its size between full garbage collections.
 * Arrays of a tensor engine count as growth, so that V8 would otherwise collect twice a second, and
 * its threads take processor time from the engine.
 *
 * Effects  sets a flag of V8 for all threads, those that start later included.
 * Cost     at most two times the live heap, which is about 60 MB.
 */
export const letHeapGrow = (): void => setFlagsFromString(`--heap-growing-percent=${GROWTH}`)
