/** Runs that are killed again and again, each time at another moment, and go on until they end. */
import { spawn } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { child, type Key, uniform, uniformInteger } from '@tandem-rl/base'
import { compiled } from './compiled.js'
import type { KillOrder } from './killMain.js'
import { contentsOf, parseJsonLines, type RunSettings, withoutSeconds } from './runs.js'

/** The phases that a run reports. */
const KILL_PHASES = [
  ...(['opening', 'collecting', 'training', 'syncing', 'recording', 'inside a log', 'evaluating'] as const),
  ...(['checkpointing', 'inside a checkpoint', 'checkpointed', 'removing', 'writing', 'inside a file'] as const),
] as const

export type KillPhase = (typeof KILL_PHASES)[number]

/**
 * The moment of a kill: by itself at the start of a phase, or from outside, a given time after a
 * number of output lines.
 */
export type KillMoment =
  | { readonly at: 'phase'; readonly phase: KillPhase; readonly nth: number }
  | { readonly at: 'time'; readonly lines: number; readonly delayMs: number }

/** Actions of a session, each done once until the run ends. */
const ONCE: readonly KillPhase[] = ['opening', 'writing', 'inside a file']

/**
 * Draws moments from a key: every second one at a phase, in turn, and the others at a random time
 * in the first steps.
 */
export const killMoments = (key: Key, count: number): readonly KillMoment[] =>
  Array.from({ length: count }, (_, i) => {
    const own = child(key, i)
    const phase = KILL_PHASES[Math.floor(i / 2) % KILL_PHASES.length]!
    return i % 2 === 0
      ? { at: 'phase', phase, nth: ONCE.includes(phase) ? 1 : 1 + uniformInteger(own, 2) }
      : { at: 'time', lines: 1 + uniformInteger(own, 24), delayMs: 40 * uniform(child(own, 'delay')) }
  })

interface Ended {
  readonly signal: NodeJS.Signals | null
  /** The last that it began; null if it said nothing. */
  readonly phase: KillPhase | null
}

/** Runs one session up to a moment or to its end. If it fails, rejects with its output. */
const playSession = (order: Omit<KillOrder, 'at'>, moment: KillMoment | null): Promise<Ended> =>
  new Promise((resolve, reject) => {
    const at = moment?.at === 'phase' ? { phase: moment.phase, nth: moment.nth } : null
    const command = [compiled('test/kit/killMain.ts'), JSON.stringify({ ...order, at } satisfies KillOrder)]
    const running = spawn(process.execPath, command, { stdio: ['ignore', 'pipe', 'pipe'] })
    let lines = 0
    let phase: Ended['phase'] = null
    let errors = ''
    createInterface(running.stdout).on('line', (line) => {
      phase = line as KillPhase // it reports nothing else
      lines++
      if (moment?.at === 'time' && lines === moment.lines) setTimeout(() => running.kill('SIGKILL'), moment.delayMs)
    })
    running.stderr.setEncoding('utf8').on('data', (text: string) => {
      errors += text
    })
    running.on('error', reject)
    running.on('close', (code, signal) => {
      if (code === 0 || signal === 'SIGKILL') resolve({ signal, phase })
      else reject(new Error(`the run ended with code ${code}, signal ${signal}:\n${errors}`))
    })
  })

/** Runs to the end, with a kill at each earlier moment. Returns the phase of each kill. */
export const playKilled = async (
  folder: string,
  settings: RunSettings,
  moments: readonly KillMoment[],
): Promise<readonly KillPhase[]> => {
  const kills: KillPhase[] = []
  for (const moment of moments) {
    const { signal, phase } = await playSession({ folder, settings }, moment)
    if (signal === null) break
    if (phase !== null) kills.push(phase)
  }
  await playSession({ folder, settings }, null)
  return kills
}

/** The number of hits of each. */
export const histogramOf = (kills: readonly KillPhase[]): Readonly<Record<string, number>> =>
  Object.fromEntries(KILL_PHASES.map((phase) => [phase, kills.filter((each) => each === phase).length]))

/** Parses the `config.json` of a run, without the time and the command line of its start. */
const withoutStart = (text: string): object => ({ ...(JSON.parse(text) as object), start: null })

/** Returns everything a finished run has saved, without data that depends on time. */
export const remainsOfRun = (folder: string) => {
  const text = (file: string): string => readFileSync(`${folder}/${file}`, 'utf8')
  const lines = (file: string) => parseJsonLines(text(file))
  const states = readdirSync(`${folder}/checkpoints`).map((name) => {
    const { 'state.json': _, ...files } = contentsOf(`${folder}/checkpoints/${name}`)
    const state: object = JSON.parse(text(`checkpoints/${name}/state.json`))
    return { name, files, state: withoutSeconds([{ ...state, metrics: null, digest: null }]) }
  })
  const summary: object = JSON.parse(text('summary.json'))
  return {
    files: readdirSync(folder, { recursive: true, encoding: 'utf8' }).sort(),
    states,
    config: withoutStart(text('config.json')),
    metrics: withoutSeconds(lines('metrics.jsonl')),
    trajectories: text('trajectories.jsonl'),
    summary: withoutSeconds([{ ...summary, tokensPerSecond: 0, evaluations: 0, engine: 0 }]),
  }
}
