/** Policies by name, as configurations of games and agents name them. */
import { checkOptions, type Failure } from '@tandem-rl/base'
import { liveEnvironment, packagesOf } from '@tandem-rl/base/host'
import { liveFiles, liveHub } from '@tandem-rl/host'
import { message } from '@tandem-rl/text'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { HistoryAction, HistoryPrompt, Policy } from '../../../data/policy.js'
import { data } from '../../../data/tensorDict/leaf.js'
import { TensorDict } from '../../../data/tensorDict/tensorDict.js'
import { RESOLVE_POLICY_OPTIONS } from '../../optionKinds.js'
import { makeVLLMWorker } from '../vllmWorker/vllmWorker.js'
import { inProcess } from './policyInProcess.js'
import { readVariables, registryFailure } from './policyKeys.js'
import {
  type FoundPolicy,
  type Lookup,
  listedAs,
  type NamedPolicy,
  namedPolicy,
  type RegistryOptions,
  type RegistryWorld,
} from './policyLookup.js'
import { liteLlm, openAi, openRouter } from './policyProviders.js'
import { vllm } from './policyServers.js'

const scripted = (answer: string): FoundPolicy => {
  const policy: Policy<HistoryPrompt, HistoryAction> = {
    name: `scripted_${answer}`,
    act: (td) =>
      TE.right(
        TensorDict(
          {
            history: {
              response: data(Array.from({ length: td.batchShape[0] ?? 0 }, () => message('assistant', answer))),
            },
          },
          td.batchShape,
        ),
      ),
  }
  return TE.right(namedPolicy(policy, policy.name, async () => {}))
}

/** Prefix -> how the rest of a name is looked up, and an example. */
const PREFIXES: Readonly<
  Record<string, readonly [example: string, find: (rest: string, lookup: Lookup) => FoundPolicy]>
> = {
  vllm: ['vllm_policy', vllm],
  hf: ['hf_Qwen/Qwen2.5-0.5B-Instruct', inProcess],
  openai: ['openai_gpt-4.1-mini', openAi],
  litellm: ['litellm_groq/llama-3.1-8b-instant', liteLlm],
  openrouter: ['openrouter_meta-llama/llama-3.1-8b-instruct', openRouter],
  scripted: ['scripted_4', scripted],
}

const checkNames = (names: Readonly<Record<string, readonly string[]>>): void => {
  const all = Object.values(names).flat()
  const twice = all.find((name, i) => all.indexOf(name) !== i)
  if (twice === undefined) return
  const policies = Object.keys(names).filter((policy) => names[policy]!.includes(twice))
  throw new RangeError(`resolvePolicy, names: '${twice}' is listed twice, for ${policies.join(' and ')}`)
}

/**
 * Resolves a name to a policy: `PREFIX_MODEL`.
 *
 * - `vllm_NAME`: a server of the registry file, or one that is started for its `model_path`.
 * - `hf_ID`: a folder or a repository of the hub, in this process. GPT-2, DistilGPT-2 and GPT-Neo
 *   125M have the short names of Transformers, such as `hf_gpt2`.
 * - `openai_MODEL`, `openrouter_MODEL`: these services, or the server at OPENAI_BASE_URL.
 * - `litellm_PROVIDER/MODEL`: the LiteLLM proxy at LITELLM_BASE_URL, else `providers`, else the
 *   package of the AI SDK, if it is installed. Without a provider, OpenAI's.
 * - `scripted_ANSWER`: always this answer.
 *
 * `names` gives a policy other names.
 *
 * Errors   `Left` for an unknown prefix (with all known ones), a missing key (with the name of the
 *          variable), a missing package (with the command that installs it), a name that a registry
 *          file lacks, and a model or a server that does not start. Keys are never part of a
 *          failure. Throws RangeError for a name of two policies.
 * Effects  reads registry files and `.env`; downloads a model of the hub into its cache; starts a
 *          server. `close` of the policy frees what it holds.
 * Source   Game Reasoning Arena's registry.
 */
export const resolvePolicy = (name: string, options: RegistryOptions = {}): TE.TaskEither<Failure, NamedPolicy> => {
  checkOptions('resolvePolicy', options, RESOLVE_POLICY_OPTIONS)
  const { names = {} } = options
  checkNames(names)
  const [, prefix = '', rest = ''] = /^([a-z]+)_(.+)$/s.exec(listedAs(names, name)) ?? []
  const found = Object.hasOwn(PREFIXES, prefix) ? PREFIXES[prefix] : undefined
  if (found === undefined) {
    const known = Object.entries(PREFIXES).map(([each, [example]]) => `${each}_ (${example})`)
    return TE.left(registryFailure(`'${name}' begins with none of ${known.join(', ')}`))
  }
  const { envFile = '.env', sampling = {}, limits = {} } = options
  const world: RegistryWorld = {
    files: liveFiles,
    environment: liveEnvironment,
    packages: packagesOf(import.meta),
    hub: () => liveHub(),
    startServer: makeVLLMWorker,
    ...options.world,
  }
  return pipe(
    readVariables({ files: world.files, environment: world.environment, envFile }),
    TE.chain((variables) => found[1](rest, { sampling, limits, options, envFile, world, variables })),
    TE.map((policy) => ({ ...policy, name })),
  )
}
