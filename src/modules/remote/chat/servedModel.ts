/** Addresses and names of models on servers with OpenAI's API. */
import { liveWebFetch } from '@tandem-rl/host'
import { boundedList } from '@tandem-rl/text'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { z } from 'zod'

const LIST_MS = 5000
const MAX_BYTES = 2 ** 20
const MOST_MODELS = 1000

const models = z.object({
  data: boundedList(
    z.object({ id: z.string(), root: z.string().nullish(), parent: z.string().nullish() }),
    MOST_MODELS,
  ),
})

/**
 * Returns the address of an API: `/v1` is added to an address without a path.
 *
 * @example
 * apiAddress('http://127.0.0.1:8000') // 'http://127.0.0.1:8000/v1'
 */
export const apiAddress = (url: string): string => {
  const address = new URL(url)
  return address.pathname === '/' && address.search === '' ? `${address.href.replace(/\/+$/, '')}/v1` : url
}

/** The models that a server lists; none if it does not list them within 5 s. */
const listed = async (baseUrl: string, apiKey: string | undefined): Promise<z.output<typeof models>['data']> => {
  const web = liveWebFetch({ maxBytes: MAX_BYTES, connectMs: LIST_MS })
  try {
    const response = await web.fetch(`${baseUrl.replace(/\/+$/, '')}/models`, {
      headers: apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` },
      signal: AbortSignal.timeout(LIST_MS),
    })
    const read = models.safeParse(response.ok ? await response.json() : undefined)
    return read.success ? read.data.data : []
  } catch {
    return [] // the first request reports a server that cannot be reached
  } finally {
    await web.close()
  }
}

/**
 * Returns the name of a model on a server: the given one, or that of the only model of a server
 * that does not list the given one.
 */
export const servedModel = (
  model: string,
  { baseUrl, apiKey }: { readonly baseUrl: string; readonly apiKey?: string | undefined },
): TE.TaskEither<never, string> =>
  TE.fromTask(async () => {
    const all = await listed(baseUrl, apiKey)
    if (all.some(({ id }) => id === model)) return model
    const bases = all.filter(({ parent }) => parent == null)
    const isOne = new Set(bases.map(({ id, root }) => root ?? id)).size === 1
    return isOne ? bases[0]!.id : model
  })
