/** Makes the runs of the demonstration, each in a process of its own that is measured. */
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { keyFromSeed, orThrow } from '@tandem-rl/base'
import { loadRecipe } from '../../src/cli/recipeFile.js'
import { loadText } from '../../src/doors/models.js'
import { data, get, raggedRows, TensorDict } from '../../src/doors/tensordict.js'
import * as T from '../../src/index.js'
import { bySize } from '../../src/run/define/bySize.js'
import { type HeldOut, nameOf, type RunName, type RunResult, SHARED, type Step, type Task } from './demonstration.js'

/** The places of the model and of the peers. */
export interface Places {
  /** The model in GGUF. */
  readonly model: string
  /** The same weights as a folder for Transformers. */
  readonly folder: string
  readonly python: string
}

/** Processor time in seconds and peak memory of a running process. */
const usageOf = ({ pid }: ChildProcess): { readonly cpu: number; readonly peakMiB: number } => {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ')
  const peak = /VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))
  return { cpu: (Number(fields[11]) + Number(fields[12])) / 100, peakMiB: Math.round(Number(peak?.[1]) / 1024) }
}

/** Measures the time between two events of a process. */
const stopwatch = (child: ChildProcess) => {
  let [cpu, wall] = [usageOf(child).cpu, performance.now()]
  const restart = () => {
    const [now, at] = [usageOf(child).cpu, performance.now()]
    const passed = { cpuSeconds: rounded(now - cpu), wallSeconds: rounded((at - wall) / 1000) }
    ;[cpu, wall] = [now, at]
    return passed
  }
  return { restart }
}

const rounded = (value: number): number => Number(value.toFixed(3))
const meanOf = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0) / values.length

/** A line of JSON with a type, from one of both programs. */
type Line = Readonly<Record<string, unknown>> & { readonly type: string }

/** Starts a program and calls `see` with each of its lines of JSON. Throws Error if it fails. */
const follow = async (
  [program, ...args]: readonly string[],
  see: (line: Line, child: ChildProcess) => void,
): Promise<void> => {
  const child = spawn(program!, args, {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: { ...process.env, TQDM_DISABLE: '1' },
  })
  const ended = new Promise<number | null>((resolve) => child.on('close', resolve))
  for await (const line of createInterface({ input: child.stdout! }))
    if (line.startsWith('{')) see(JSON.parse(line) as Line, child) // both write one record a line
  const code = await ended
  if (code !== 0) throw new Error(`${[program, ...args].join(' ')} ended with ${code}`)
}

const tandem = (...args: readonly string[]): readonly string[] => [
  process.execPath,
  ...['--conditions=tandem-source', '--import', 'tsx', 'src/cli/main.ts'],
  ...args,
  ...['--threads', String(SHARED.threads), '--json'],
]

/** Evaluates a model by greedy replies: the same evaluator for both sides. */
export const evaluate = async (task: Task, model: readonly string[]): Promise<HeldOut> => {
  let scores: Readonly<Record<string, number>> | undefined
  const size = ['--eval-tasks', String(SHARED.evaluated), '--max-new-tokens', String(SHARED.maxNewTokens)]
  await follow(tandem('eval', task, ...model, ...size), (line) => {
    if (line.type === 'scores') scores = line.scores as typeof scores // of `tandem eval --json`
  })
  return { accuracy: rounded(scores!.accuracy!), tokens: rounded(scores!.completionTokens!) }
}

/** The outcome of training: the arguments that name the trained model, and its numbers. */
interface Trained extends Pick<RunResult, 'steps' | 'peakMiB' | 'versions' | 'ended'> {
  readonly model: readonly string[]
}

const trainTandem = async ({ task, kind, seed }: RunName, { model }: Places, out: string): Promise<Trained> => {
  const { steps, prompts, group, maxNewTokens, lora } = SHARED
  const flags = {
    model,
    seed,
    steps,
    prompts,
    group,
    'max-new-tokens': maxNewTokens,
    out,
    'eval-every': steps,
    'eval-tasks': 1, // evaluated by a program of its own
    'checkpoint-every': steps,
    ...(kind === 'lora' && { 'lora-rank': lora.rank, 'lora-alpha': lora.alpha }),
  }
  const done: Step[] = []
  let [peakMiB, alarm] = [0, '']
  let watch: ReturnType<typeof stopwatch> | undefined
  const args = Object.entries(flags).flatMap(([name, value]) => [`--${name}`, String(value)])
  await follow(tandem('train', task, ...args), (line, child) => {
    watch ??= stopwatch(child)
    const passed = watch.restart()
    if (line.type === 'alarm') alarm = String(line.message)
    if (line.type !== 'step') return
    done.push({ reward: rounded(Number(line.reward)), tokens: rounded(Number(line.completionTokens)), ...passed })
    ;({ peakMiB } = usageOf(child))
  })
  const trained = join(out, 'checkpoints', `step-${String(done.length).padStart(6, '0')}`)
  const versions = { tandem: packageVersion('.'), onnxruntime: packageVersion('node_modules/onnxruntime-node') }
  return {
    steps: done,
    peakMiB,
    versions,
    ...(done.length < steps && { ended: alarm }),
    model: kind === 'lora' ? ['--model', model, '--adapter', trained] : ['--model', trained],
  }
}

const packageVersion = (folder: string): string => {
  const { version } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as { readonly version: string }
  return version
}

/** The reward of a task, which its recipe exports. */
type RewardOf = (reply: string, answer: string) => number

const rewardOf = async (task: Task): Promise<RewardOf> => {
  const recipe = (await import(`../../recipes/${task}.ts`)) as { readonly rewardOf: RewardOf }
  return recipe.rewardOf
}

/** The tasks that a run draws, in order: the same for all seeds. */
const drawnTasks = async (task: Task): Promise<readonly T.Task[]> => {
  const { recipe } = await loadRecipe(task)
  const source = (await recipe.tasks!(recipe.settings.parse({}) as never)) as T.TaskSource // of recipes with tasks
  return Array.from({ length: SHARED.steps * SHARED.prompts }, (_, i) => orThrow(source.at(i)))
}

/** Returns the ids of the prompts, rendered as Tandem does. */
const promptIds = async (queries: readonly string[], model: string): Promise<readonly (readonly number[])[]> => {
  const { template, endOfTurn, tokenizer } = orThrow(await loadText(model)()).text
  const env = T.append(T.Tokenizer({ tokenizer }))(
    T.append(T.TemplateTransform({ template, endOfTurn }))(T.ChatEnv({ batchSize: queries.length })),
  )
  const request = TensorDict({ query: data([...queries]) }, [queries.length])
  return raggedRows(get(orThrow(await env.reset(request, keyFromSeed(0))()), 'tokens', 'prompt'))
}

const trainTrl = async (name: RunName, places: Places, out: string): Promise<Trained> => {
  const { task, kind, seed } = name
  const [tasks, reward] = [await drawnTasks(task), await rewardOf(task)]
  const queries = tasks.map(({ query }) => query)
  const expected = await promptIds(queries, places.model)
  const settings = join(out, 'settings.json')
  const learningRate = await rateOf(kind, places.model)
  const { lora, ...shared } = SHARED
  const given = {
    ...shared,
    model: places.folder,
    out,
    seed,
    queries,
    learningRate,
    lora: kind === 'lora' ? lora : null,
  }
  writeFileSync(settings, JSON.stringify(given))
  const done: Step[] = []
  let [peakMiB, versions] = [0, {}]
  let watch: ReturnType<typeof stopwatch> | undefined
  let batch: Pick<Step, 'reward' | 'tokens'> | undefined
  await follow([places.python, 'scripts/verify/peers/demonstration.py', settings], (line, child) => {
    watch ??= stopwatch(child)
    if (line.type === 'prompts') {
      if (JSON.stringify(line.ids) !== JSON.stringify(expected)) throw new Error('the ids of the prompts differ')
      versions = line.versions as typeof versions
    } else if (line.type === 'completions') {
      const [texts, drawn] = [line.texts as readonly string[], line.tasks as readonly number[]] // of demonstration.py
      const first = done.length * SHARED.prompts
      if (drawn.some((index, i) => index !== first + Math.floor(i / SHARED.group))) throw new Error('other tasks')
      const rewards = texts.map((text, i) => reward(text, tasks[drawn[i]!]!.answer))
      batch = { reward: rounded(meanOf(rewards)), tokens: rounded(Number(line.tokens) / texts.length) }
      child.stdin!.write(`${JSON.stringify(rewards)}\n`)
    } else if (line.type === 'begin') {
      watch.restart()
    } else if (line.type === 'step') {
      done.push({ ...batch!, ...watch.restart() })
      ;({ peakMiB } = usageOf(child))
    }
  })
  return {
    steps: done,
    peakMiB,
    versions,
    model: kind === 'lora' ? ['--model', places.model, '--adapter', out] : ['--model', out],
  }
}

/** The default learning rate of Tandem, which TRL gets too. */
const rateOf = async (kind: RunName['kind'], model: string): Promise<number> => {
  const { config } = orThrow(await loadText(model)())
  const settings = T.policySettings.parse(kind === 'lora' ? { lora: { rank: SHARED.lora.rank } } : {})
  return bySize(settings, config).learningRate.value
}

/** Trains, evaluates the trained model, and returns all numbers. */
export const demonstrate = async (name: RunName, places: Places): Promise<RunResult> => {
  const folder = mkdtempSync(join(tmpdir(), `tandem-${nameOf(name)}-`))
  try {
    const out = join(folder, 'out')
    if (name.side === 'trl') mkdirSync(out)
    const { model, ...numbers } = await (name.side === 'tandem' ? trainTandem : trainTrl)(name, places, out)
    const learningRate = await rateOf(name.kind, places.model)
    const heldOut = await evaluate(name.task, model)
    return { ...name, learningRate, ...numbers, heldOut, processor: cpus()[0]!.model }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
