/** `tandem doctor`: tests the tensor backends of this machine, and prints how to install others. */
import { fork } from 'node:child_process'
import { createRequire } from 'node:module'
import { arch, availableParallelism, freemem, platform, totalmem } from 'node:os'
import { fileURLToPath } from 'node:url'
import { countOf } from '@tandem-rl/base'
import { liveMachine, print } from '@tandem-rl/base/host'
import { BACKEND_CANDIDATES, type BackendCandidate, type BackendName } from '@tandem-rl/tfjs-onnxruntime'
import { Command } from 'commander'
import { isRight } from 'fp-ts/lib/Either.js'
import { formatEstimate, type MemoryEstimate, memoryEstimate } from '../learners/memoryEstimate.js'
import type { Recompute } from '../learners/steps/stepGradients.js'
import { adapterShapes } from '../modules/lora/adapter.js'
import { adaptedProjections, DEFAULT_LORA } from '../modules/lora/config.js'
import { loadConfig } from '../modules/pretrained/pretrained.js'
import type { DecoderConfig } from '../modules/transformer/config.js'
import { parameterCount } from '../modules/transformer/params.js'
import { bySize } from '../run/define/bySize.js'
import { stateNumbers } from '../run/define/choices.js'
import { policySettings } from '../run/parts/settings.js'
import { CommandError, orFail } from './failure.js'
import { type EngineOptions, engineOptions, MODEL_HELP } from './options.js'
import type { ProbeRequest, ProbeResult } from './probe.js'
import type { SelfTest } from './selfTest.js'

/** Install commands, with the version ranges of the backend's package.json. */
const INSTALL: Readonly<Record<string, string>> = {
  '@tensorflow/tfjs-node-gpu': 'npm install @tensorflow/tfjs-node-gpu@~4.22.0',
  '@tensorflow/tfjs-node': 'npm install @tensorflow/tfjs-node@~4.22.0',
  'onnxruntime-node': 'ONNXRUNTIME_NODE_INSTALL=skip npm install onnxruntime-node@1.30.0',
  '@tensorflow/tfjs-backend-wasm': 'npm install @tensorflow/tfjs-backend-wasm@~4.22.0',
  '@tensorflow/tfjs-backend-cpu': 'npm install @tensorflow/tfjs-backend-cpu@~4.22.0',
}

const NOTES: Readonly<Partial<Record<BackendName, string>>> = {
  tensorflow: 'its install script downloads libtensorflow, which is not on the npm registry',
  onnxruntime: 'without the variable, its install script downloads CUDA libraries, which are not on the npm registry',
}

/**
 * The first Node version that cannot load tfjs-node 4.22, because it removed a function it calls.
 */
const NODE_WITHOUT_TFJS_NODE = 23

interface Diagnosis extends BackendCandidate {
  /** Version of the package, or `null` if it is not installed. */
  readonly version: string | null
  readonly state: 'works' | 'wrong results' | 'fails' | 'not installed'
  /** `true` for the backend that the other commands use. */
  readonly isChosen: boolean
  readonly problem: string | null
  /** The install command, or `null` if none is needed. */
  readonly remedy: string | null
  readonly threads: number | null
  readonly test: SelfTest | null
}

export interface DoctorReport {
  readonly node: string
  readonly platform: string
  readonly cores: number
  readonly memory: { readonly totalBytes: number; readonly freeBytes: number }
  /** `true` if the backend that the other commands use works. */
  readonly works: boolean
  readonly backends: readonly Diagnosis[]
  /** Estimated memory of training, by method. `null` if no model was named. */
  readonly training: readonly TrainingMemory[] | null
}

/** The estimated memory of one training method. */
interface TrainingMemory {
  readonly trains: 'all weights' | 'an adapter of rank 8'
  readonly recompute: Recompute
  readonly fits: 'yes' | 'no'
  readonly estimate: MemoryEstimate
}

/** Prompt length that the estimates assume, in tokens. */
const PROMPT_TOKENS = 256

/** Estimates the memory of a run with default settings. Reads only config.json of the model. */
const trainingMemory = (config: DecoderConfig): readonly TrainingMemory[] => {
  const adapted = adaptedProjections(config, DEFAULT_LORA)
  const shapes = isRight(adapted) ? [...adapterShapes(adapted.right).values()] : [] // every decoder has projections
  const ways = [
    ['all weights', parameterCount(config)],
    ['an adapter of rank 8', shapes.reduce((sum, [rows, columns]) => sum + rows * columns, 0)],
  ] as const
  const settings = policySettings.parse({})
  const { tasks, sampling } = settings
  const { microBatch } = bySize(settings, config)
  const batch = { ...tasks, promptTokens: PROMPT_TOKENS, completionTokens: sampling.maxNewTokens }
  return ways.flatMap(([trains, trained]) =>
    (['none', 'layers'] as const).map((recompute): TrainingMemory => {
      const estimate = memoryEstimate({
        config,
        trained,
        batch,
        microBatchTokens: microBatch.value,
        recompute,
        stateNumbers: stateNumbers(settings),
      })
      return { trains, recompute, fits: estimate.total <= liveMachine.memoryBytes() ? 'yes' : 'no', estimate }
    }),
  )
}

const installedVersion = (packageName: string): string | null => {
  const require = createRequire(import.meta.url)
  try {
    const { version } = require(`${packageName}/package.json`) as { readonly version: string } // npm asks for the field
    return version
  } catch {
    return null
  }
}

/** Describes the end of a probe process that sent no result. */
const ending = (code: number | null, signal: NodeJS.Signals | null, stderr: string): string => {
  const how = signal === null ? `ended with code ${code}` : `was ended by ${signal}`
  const reply = stderr.trim().split('\n').at(-1)
  return `the process that loaded it ${how}${reply ? `: ${reply}` : ''}`
}

const LONGEST_PROBE = 60_000

/** Loads and tests a backend in a separate process. */
const probe = (request: ProbeRequest): Promise<ProbeResult> =>
  new Promise((settle) => {
    const program = fileURLToPath(new URL(import.meta.url.replace(/doctor(\.[jt]s)$/, 'probe$1')))
    const running = fork(program, [JSON.stringify(request)], {
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
      timeout: LONGEST_PROBE,
    })
    let stderr = ''
    running.stderr?.setEncoding('utf8').on('data', (text: string) => {
      stderr += text
    })
    running.on('message', (result: ProbeResult) => settle(result)) // sent by `probe.ts`
    running.on('error', ({ message }) => settle({ _tag: 'Failed', problem: message, attempts: [] }))
    running.on('close', (code, signal) =>
      settle({ _tag: 'Failed', problem: ending(code, signal, stderr), attempts: [] }),
    )
  })

const remedyFor = ({ backend, packageName }: BackendCandidate): string => {
  const major = Number(process.versions.node.split('.')[0])
  if (backend === 'tensorflow' && major >= NODE_WITHOUT_TFJS_NODE) {
    return `use a Node version below ${NODE_WITHOUT_TFJS_NODE}; then ${INSTALL[packageName]}`
  }
  const note = NOTES[backend]
  return `${INSTALL[packageName]}${note === undefined ? '' : ` (${note})`}`
}

const NOTHING = { problem: null, remedy: null, threads: null, test: null } as const

const diagnosisOf = (candidate: BackendCandidate, version: string, result: ProbeResult): Diagnosis => {
  const known = { ...NOTHING, ...candidate, version, isChosen: false }
  if (result._tag === 'Failed') {
    return { ...known, state: 'fails', problem: result.problem, remedy: remedyFor(candidate) }
  }
  const { test, threads } = result
  const isRight = test.product === 'right' && test.gradient === 'right'
  return { ...known, state: isRight ? 'works' : 'wrong results', test, threads }
}

/** Tests the requested or default backend and all other installed ones, one process at a time. */
const examine = async (wanted: ProbeRequest): Promise<DoctorReport> => {
  const chosen = await probe(wanted)
  const backends: Diagnosis[] = []
  for (const candidate of BACKEND_CANDIDATES) {
    const { backend, packageName } = candidate
    const version = installedVersion(packageName)
    const isChosen = chosen._tag === 'Loaded' && chosen.packageName === packageName
    if (version === null) {
      const remedy = remedyFor(candidate)
      backends.push({ ...NOTHING, backend, packageName, version, isChosen, state: 'not installed', remedy })
      continue
    }
    const threads = wanted.threads === undefined ? {} : { threads: wanted.threads }
    const result = isChosen ? chosen : await probe({ backend, packageName, ...threads })
    backends.push({ ...diagnosisOf({ backend, packageName }, version, result), isChosen })
  }
  return {
    node: process.version,
    platform: `${platform()} ${arch()}`,
    cores: availableParallelism(),
    memory: { totalBytes: totalmem(), freeBytes: freemem() },
    works: backends.some(({ isChosen, state }) => isChosen && state === 'works'),
    backends,
    training: null,
  }
}

const gigabytes = (bytes: number): string => `${(bytes / 2 ** 30).toFixed(1)} GiB`

const linesOf = (diagnosis: Diagnosis): readonly string[] => {
  const { backend, packageName, version, state, isChosen, problem, remedy, threads, test } = diagnosis
  const name = version === null ? packageName : `${packageName} ${version}`
  const number = threads === null ? [] : [countOf(threads, 'thread')]
  const tested =
    test === null ? [] : [`${test.gflops.toFixed(1)} GFLOP/s`, `product ${test.product}`, `gradient ${test.gradient}`]
  return [
    `${isChosen ? '*' : ' '} ${backend.padEnd(12)} ${name.padEnd(38)} ${[state, ...number, ...tested].join(', ')}`,
    ...(problem === null ? [] : [`    ${problem}`]),
    ...(remedy === null ? [] : [`    to install: ${remedy}`]),
  ]
}

const trainingLines = (training: readonly TrainingMemory[]): readonly string[] => [
  `training with the default settings and prompts of ${PROMPT_TOKENS} tokens:`,
  ...training.map(
    ({ trains, recompute, fits, estimate }) =>
      `  ${trains}, recompute ${recompute}: ${formatEstimate(estimate)}${fits === 'yes' ? '' : ' (exceeds this machine)'}`,
  ),
  '',
]

const textOf = ({ node, platform, cores, memory, backends, training }: DoctorReport): string =>
  [
    `Node ${node} on ${platform}, ${countOf(cores, 'core')}, ${gigabytes(memory.totalBytes)} of memory, ${gigabytes(memory.freeBytes)} free`,
    '',
    ...backends.flatMap(linesOf),
    '',
    ...(training === null ? [] : trainingLines(training)),
    '* marks the backend that the other commands use. To change it, set --backend or the variable TANDEM_BACKEND.',
    '',
  ].join('\n')

interface DoctorFlags extends EngineOptions {
  readonly model?: string
  readonly json?: boolean
}

const action = async (flags: DoctorFlags): Promise<void> => {
  const { backend, threads } = flags
  const config = flags.model === undefined ? undefined : await orFail(loadConfig(flags.model))
  const examined = await examine({ ...(backend && { backend }), ...(threads !== undefined && { threads }) })
  const report: DoctorReport = config === undefined ? examined : { ...examined, training: trainingMemory(config) }
  print(flags.json === true ? `${JSON.stringify(report)}\n` : textOf(report))
  if (!report.works) throw new CommandError(`the ${backend ?? 'default'} tensor backend does not work`)
}

export const doctorCommand = (): Command => {
  const command = new Command('doctor')
  command.option('--model <name>', `also estimate the memory for training this model: ${MODEL_HELP}`)
  for (const option of engineOptions()) command.addOption(option)
  return command.option('--json', 'print the report as one line of JSON').action(action)
}
