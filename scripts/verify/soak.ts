/**
 * Repeats the whole loop and records memory, tensors and handles each minute: `npm run verify --
 * soak --minutes 60`.
 *
 * Rounds take turns: runs of `tandem train` that are stopped, taken up again and reported,
 * rollouts that fail now and then with the policy in this process, and with an engine on a thread
 * behind HTTP. Between two rounds nothing may be held. Writes soak.jsonl, verdict.json and
 * soak.svg to `--out`, and ends with 1 if something grows. It runs at the lowest priority, on one
 * thread, and works `--share` of the time.
 */
import { appendFileSync, mkdirSync, readdirSync, readlinkSync, writeFileSync } from 'node:fs'
import { constants, setPriority } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { child, keyFromSeed, orThrow } from '@tandem-rl/base'
import { selectBackend } from '@tandem-rl/tfjs-onnxruntime'
import { liveTensors, ownedCount } from '@tandem-rl/tfjs-onnxruntime/scope'
import { EMBEDDED_MODEL } from '../../src/live/embeddedModel.js'
import { loadPretrained } from '../../src/modules/pretrained/pretrained.js'
import { collectGarbage } from '../../test/kit/memory.js'
import { type Reading, soakPicture, verdictOf, WARM_UP_MINUTES } from '../kit/soakReadings.js'
import { addWork, NO_WORK, playRound, ROUNDS } from '../kit/soakRounds.js'

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '60' },
    share: { type: 'string', default: '0.5' },
    seed: { type: 'string', default: '1' },
    out: { type: 'string', default: 'runs/soak' },
  },
})

const number = (name: 'minutes' | 'share' | 'seed', lowest: number): number => {
  const value = Number(values[name])
  if (!(value >= lowest))
    throw new RangeError(`--${name} must be a number of at least ${lowest}, got '${values[name]}'`)
  return value
}
const [minutes, share, seed] = [number('minutes', 0), Math.min(1, number('share', 0.01)), number('seed', 0)]

/** The folder that lists open descriptors, on systems that have one. */
const DESCRIPTORS = '/proc/self/fd'

const kindOf = (descriptor: string): string => {
  try {
    const target = readlinkSync(join(DESCRIPTORS, descriptor))
    return target.startsWith('/') ? 'file' : (/^[a-z_]+(:\[[a-z]+\])?/.exec(target)?.[0] ?? 'other')
  } catch {
    return 'listing' // the descriptor that the names were read from
  }
}

const counted = (names: readonly string[]): Readonly<Record<string, number>> =>
  Object.fromEntries([...new Set(names)].sort().map((name) => [name, names.filter((each) => each === name).length]))

const startedAt = performance.now()
const minutesNow = (): number => (performance.now() - startedAt) / 60_000

const readProcess = async (rounds: number): Promise<Reading> => {
  await collectGarbage()
  const { rss, heapUsed, external } = process.memoryUsage()
  return {
    minutes: Number(minutesNow().toFixed(2)),
    rounds,
    memory: { rss, heapUsed, external },
    tensors: { ...liveTensors(), owned: ownedCount() },
    descriptors: counted(readdirSync(DESCRIPTORS).map(kindOf)),
    resources: counted(process.getActiveResourcesInfo()),
  }
}

setPriority(constants.priority.PRIORITY_LOW)
await selectBackend({ threads: 1 })
const folder = resolve(values.out)
mkdirSync(folder, { recursive: true })
const log = join(folder, 'soak.jsonl')
writeFileSync(log, '')
const model = orThrow(await loadPretrained(EMBEDDED_MODEL)())

let restedAt = performance.now()
/** As long a pause as the work before it calls for. */
const rest = async (): Promise<void> => {
  const worked = performance.now() - restedAt
  await new Promise((go) => setTimeout(go, worked * (1 / share - 1)))
  restedAt = performance.now()
}

const readings: Reading[] = []
let work = NO_WORK
let rounds = 0
for (let next = 0; minutesNow() < minutes || rounds < ROUNDS.length; rounds++) {
  const [name, round] = ROUNDS[rounds % ROUNDS.length]!
  const world = { model, folder: join(folder, `round-${rounds}`), key: child(keyFromSeed(seed), rounds), rest }
  mkdirSync(world.folder)
  work = addWork(work, await playRound(round, world))
  await rest()
  if (process.stdout.isTTY)
    process.stdout.write(`\r${minutesNow().toFixed(1)} minutes, ${rounds + 1} rounds (${name})  `)
  if (minutesNow() < next) continue
  const reading = await readProcess(rounds + 1)
  readings.push(reading)
  appendFileSync(log, `${JSON.stringify({ ...reading, work })}\n`)
  next = Math.floor(reading.minutes) + 1
}

const verdict = { ...verdictOf(readings, Math.min(WARM_UP_MINUTES, minutes / 3)), work }
writeFileSync(join(folder, 'verdict.json'), `${JSON.stringify(verdict, undefined, 2)}\n`)
writeFileSync(join(folder, 'soak.svg'), soakPicture(readings))
console.log(JSON.stringify(verdict))
if (verdict.verdict === 'grows') process.exitCode = 1
