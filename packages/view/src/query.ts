/** Reads the queries of requests. */
import { z } from 'zod'
import type { RolloutsQuery } from './protocol.js'

const number = z.coerce.number().optional()
const flag = z
  .enum(['true', 'false'])
  .transform((text) => text === 'true')
  .optional()

const part = z
  .string()
  .regex(/^[^:]{1,200}:-?[\d.e+-]{1,30}$/)
  .optional()

const querySchema = z.object({
  offset: z.coerce.number().int().min(0).optional(),
  limit: z.coerce.number().int().min(0).max(500).optional(),
  sort: z
    .string()
    .regex(/^(step|reward|length|advantage|turns|toolCalls|toolErrors|part\..{1,200})$/)
    .optional(),
  order: z.enum(['asc', 'desc']).optional(),
  step: number,
  minStep: number,
  maxStep: number,
  minReward: number,
  maxReward: number,
  minLength: number,
  maxLength: number,
  minAdvantage: number,
  maxAdvantage: number,
  minTurns: number,
  truncated: flag,
  failed: flag,
  toolErrors: flag,
  minPart: part,
  maxPart: part,
  q: z.string().max(1000).optional(),
  group: z.string().optional(),
  label: z.string().optional(),
})

/** A query that cannot be read, with the reason. */
export class QueryError extends Error {}

/** Reads the query of a list of rollouts. Errors: throws QueryError, which names the field. */
export const rolloutsQuery = (parameters: URLSearchParams): RolloutsQuery => {
  const parsed = querySchema.safeParse(Object.fromEntries([...parameters].filter(([, value]) => value !== '')))
  if (!parsed.success) {
    const [issue] = parsed.error.issues
    throw new QueryError(`${issue?.path.join('.') ?? 'query'}: ${issue?.message ?? 'cannot be read'}`)
  }
  return parsed.data as RolloutsQuery // absent fields and undefined ones are the same to the readers
}
