/** `tandem worker`: plays rollouts of problems for a trainer elsewhere, on engines that others serve. */
import { Command, Option } from 'commander'
import { redisQueueLog } from '../collectors/queues/redisQueueLog.js'
import { openRolloutQueue } from '../collectors/queues/rolloutQueue.js'
import { runRolloutWorker, type WorkerEvent } from '../collectors/workers/rolloutWorker.js'
import { liveFiles } from '../live/files.js'
import { loadText } from '../modules/pretrained.js'
import { vLLMWrapper } from '../modules/remote/vLLMWrapper.js'
import { runKeys, wordProblemEnv } from '../run/pipeline.js'
import { DEFAULT_SETTINGS } from '../run/settings.js'
import { openTasks } from '../run/tasks.js'
import { CommandError, orFail } from './failure.js'
import {
  DATASET_ARGUMENT,
  DATASET_HELP,
  datasetName,
  downloadLines,
  type EngineOptions,
  engineOptions,
  modelOption,
  naturalNumber,
  nonNegativeNumber,
  positiveInteger,
  startEngine,
} from './options.js'

interface WorkerFlags extends EngineOptions {
  readonly redis: string
  readonly queue: string
  readonly engine: readonly string[]
  readonly servedModel: string
  readonly apiKey?: string
  readonly model: string
  readonly dataset?: string
  readonly seed: number
  readonly slots: number
  readonly maxNewTokens: number
  readonly temperature: number
  readonly name: string
}

/** A line for each rollout that is over. */
const lineOf = (event: WorkerEvent): string => {
  const { ticket, place, attempt } = event.lease
  const reason = 'reason' in event ? { reason: event.reason } : {}
  return `${JSON.stringify({ type: event._tag.toLowerCase(), ticket, place, attempt, ...reason })}\n`
}

/** A signal that aborts with Ctrl-C; the second time ends the process. */
const interruption = (): { readonly signal: AbortSignal; readonly release: () => void } => {
  const abort = new AbortController()
  const onSignal = (): void => {
    if (abort.signal.aborted) process.exit(130)
    abort.abort()
    process.stderr.write('giving back what is not done; press Ctrl-C again to stop at once\n')
  }
  process.on('SIGINT', onSignal)
  process.on('SIGTERM', onSignal)
  return {
    signal: abort.signal,
    release: () => {
      process.off('SIGINT', onSignal)
      process.off('SIGTERM', onSignal)
    },
  }
}

const address = (flags: WorkerFlags): ReturnType<typeof redisQueueLog> => {
  try {
    return redisQueueLog({ url: flags.redis, name: flags.queue })
  } catch (error) {
    throw error instanceof TypeError ? new CommandError(error.message) : error
  }
}

const action = async (flags: WorkerFlags): Promise<void> => {
  const log = address(flags)
  await startEngine(flags)
  const { text } = await orFail(loadText(flags.model, liveFiles, { onProgress: downloadLines() }))
  const { seed } = flags
  const dataset = flags.dataset === undefined ? null : datasetName(flags.dataset)
  const { train: source } = await orFail(openTasks({ ...DEFAULT_SETTINGS, model: flags.model, seed, dataset }))
  const queue = await orFail(openRolloutQueue(log, { name: flags.name }))
  const { groupSize } = (await orFail(queue.look)).settings
  const endOfTurn = text.tokenizer.idOf(text.endOfTurn)
  const policy = vLLMWrapper({
    ...{ url: flags.engine, model: flags.servedModel, ...(flags.apiKey !== undefined && { apiKey: flags.apiKey }) },
    sampling: {
      ...{ maxTokens: flags.maxNewTokens, temperature: flags.temperature },
      ...(endOfTurn !== undefined && { stopTokens: [endOfTurn] }),
    },
  })
  const { signal, release } = interruption()
  try {
    const report = await orFail(
      runRolloutWorker({
        ...{ queue, policy, signal, key: runKeys(seed).rollouts, limits: { slots: flags.slots } },
        env: (_, ticket) => wordProblemEnv(source, text, { prompts: 1, repeats: groupSize, start: ticket }),
        onRollout: (event) => process.stdout.write(lineOf(event)),
      }),
    )
    process.stdout.write(`${JSON.stringify({ type: 'end', ...report })}\n`)
  } finally {
    release()
    await queue.close()
    await policy.close()
  }
}

export const workerCommand = (): Command => {
  const command = new Command('worker')
    .description('Play rollouts for a trainer that shares a queue in Redis, on engines that others serve.')
    .addOption(new Option('--redis <url>', 'redis://HOST:PORT, rediss:// or unix:/PATH').makeOptionMandatory())
    .addOption(new Option('--queue <name>', 'the name of the queue').makeOptionMandatory())
    .addOption(
      new Option('--engine <url...>', 'address of tandem serve or vLLM; several are replicas').makeOptionMandatory(),
    )
    .addOption(new Option('--served-model <name>', 'what the engine calls the model').default('policy'))
    .addOption(new Option('--api-key <key>', 'of the engine').env('TANDEM_ENGINE_API_KEY'))
    .addOption(modelOption('model whose tokenizer and template are used, without its weights'))
    .option(`--dataset ${DATASET_ARGUMENT}`, `${DATASET_HELP} (default: generated problems)`)
    .addOption(new Option('--seed <n>', 'seed of the run: the same in all workers').argParser(naturalNumber).default(1))
    .addOption(new Option('--slots <n>', 'rollouts at a time').argParser(positiveInteger).default(8))
    .addOption(
      new Option('--max-new-tokens <n>', 'longest completion in tokens').argParser(positiveInteger).default(64),
    )
    .addOption(new Option('--temperature <x>', 'of sampling').argParser(nonNegativeNumber).default(1))
    .addOption(new Option('--name <name>', 'what the worker is called in the queue').default('worker'))
  for (const option of engineOptions()) command.addOption(option)
  return command.action(action)
}
