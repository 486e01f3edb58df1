/** A request that cannot be answered, with the status of the response. */
export class ViewRefusal extends Error {
  readonly status: number
  constructor(status: number, reason: string) {
    super(reason)
    this.status = status
  }
}
