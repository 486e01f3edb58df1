/**
 * Policies of servers in a registry file: those that run, and those that are started for a model.
 */
import { type Failure, type Files, unknownName } from '@tandem-rl/base'
import { problemsOf } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { z } from 'zod'
import { parseYaml } from '../../../data/codecs/yamlText.js'
import { missingVariable, registryFailure } from './policyKeys.js'
import { type FoundPolicy, type Lookup, serverPolicy } from './policyLookup.js'
import { apiAddress, servedModel } from './servedModel.js'

const withoutPrefix = (name: string): string => name.replace(/^vllm_/, '')

const entries = z.array(
  z.looseObject({
    name: z.union([
      z.string().transform((name) => [withoutPrefix(name)]),
      z
        .array(z.string())
        .min(1)
        .transform((names) => names.map(withoutPrefix)),
    ]),
    url: z.string().optional(),
    served_name: z.string().optional(),
    model_path: z.string().optional(),
    tokenizer_path: z.string().optional(),
  }),
)

type ServerEntry = z.infer<typeof entries>[number]

/** Returns the problems of a file as a failure. */
export const problemsAt = (path: string, error: z.ZodError): Failure => ({
  ...problemsOf('list of models', error),
  where: path,
})

/**
 * Reads a registry file of JSON or YAML: a list, or an object with the list in `models`.
 *
 * Errors   `Left` with the path if the file cannot be read or parsed.
 */
export const readModelFile = (path: string, files: Files): TE.TaskEither<Failure, unknown> =>
  pipe(
    files.readText(path),
    TE.mapLeft((failure): Failure => failure),
    TE.chain((text) =>
      pipe(
        async () => parseYaml(text), // YAML includes JSON
        TE.mapLeft((reason): Failure => ({ _tag: 'FormatFailure', where: path, reason })),
      ),
    ),
    TE.map((value) => (typeof value === 'object' && value !== null && 'models' in value ? value.models : value)),
  )

/** Starts a server for an entry with a `model_path`. It ends when the policy is closed. */
const started = (entry: ServerEntry & { readonly model_path: string }, lookup: Lookup): FoundPolicy => {
  const name = entry.name[0]!
  return pipe(
    lookup.world.startServer({
      model: entry.model_path,
      servedModelName: name,
      ...(entry.tokenizer_path !== undefined && { tokenizer: entry.tokenizer_path }),
    }),
    TE.mapLeft((failure): Failure => failure),
    TE.map((worker) => {
      const policy = serverPolicy(`vllm_${name}`, { model: name, baseUrl: `${worker.url}/v1` }, lookup)
      return {
        ...policy,
        close: async () => {
          await policy.close()
          await worker.stop()
        },
      }
    }),
  )
}

/** Finds `vllm_NAME` in the registry file. */
export const vllm = (wanted: string, lookup: Lookup): FoundPolicy => {
  const { options, world, variables, envFile } = lookup
  const path = options.vllmModels ?? variables('VLLM_MODELS_PATH')
  if (path === undefined) return TE.left(missingVariable('VLLM_MODELS_PATH', `vllm_${wanted}`, envFile))
  return pipe(
    readModelFile(path, world.files),
    TE.chainEitherK((list) => {
      const parsed = entries.safeParse(list)
      return parsed.success ? E.right(parsed.data) : E.left(problemsAt(path, parsed.error))
    }),
    TE.chain((models): FoundPolicy => {
      const entry = models.find(({ name }) => name.includes(wanted))
      if (entry === undefined) {
        const known = models.flatMap(({ name }) => name)
        return TE.left(registryFailure(`${unknownName('model', wanted, known)} (${path} has ${known.join(', ')})`))
      }
      const { url, model_path } = entry
      if (url === undefined)
        return model_path === undefined
          ? TE.left(registryFailure(`the model '${wanted}' of ${path} has no url and no model_path`))
          : started({ ...entry, model_path }, lookup)
      if (!URL.canParse(url)) return TE.left(registryFailure(`the url of '${wanted}' in ${path} is no address`))
      const baseUrl = apiAddress(url)
      return pipe(
        servedModel(entry.served_name ?? entry.name[0]!, { baseUrl }),
        TE.map((model) => serverPolicy(`vllm_${wanted}`, { model, baseUrl }, lookup)),
      )
    }),
  )
}
