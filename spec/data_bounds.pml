/* Bounds, faults and mutants of the data plane. Every name can be set with -D; spec/run.py does.
 *
 * A budget says how often a fault may happen, at any step. MUTANT names one deliberate mistake;
 * 0 is the protocol as it is meant to be.
 */
#ifndef NW
#define NW 2 /* workers, the joiner included */
#endif
#ifndef NS
#define NS 2 /* shards */
#endif
#ifndef NP
#define NP 1 /* pieces of the one tensor */
#endif
#ifndef NR
#define NR 2 /* rounds */
#endif
#ifndef WCRASH
#define WCRASH 0 /* workers that die */
#endif
#ifndef SCRASH
#define SCRASH 0 /* servers that die */
#endif
#ifndef WFALSE
#define WFALSE 0 /* workers that are evicted although they live */
#endif
#ifndef SFALSE
#define SFALSE 0 /* servers that are evicted although they live */
#endif
#ifndef MOVES
#define MOVES 0 /* planned moves of a piece */
#endif
#ifndef LOSSES
#define LOSSES 0 /* connections that break while both ends live */
#endif
#ifndef ABORTS
#define ABORTS 0 /* deadlines that a worker reports although everybody works */
#endif
#ifndef HANGS
#define HANGS 0 /* users that stop handing tensors over while their engine lives */
#endif
#ifndef RESUMES
#define RESUMES 0 /* 1: such a user goes on some time */
#endif
#ifndef LEAVES
#define LEAVES 0 /* workers that leave in order, at the end of any round */
#endif
#ifndef JOIN
#define JOIN 0 /* 1: the last worker joins at the sync point after round SYNC_AFTER */
#endif
#ifndef SERVER_JOIN
#define SERVER_JOIN 0 /* 1: the last shard joins, in any view */
#endif
#ifndef SYNC_AFTER
#define SYNC_AFTER 1
#endif
#ifndef ACKS
#define ACKS 0 /* 1: acknowledgements and the stable watermark are sent */
#endif
#ifndef DELAY
#define DELAY 0 /* 1: a push and an ack may wait inside their sender */
#endif
#ifndef SKIP
#define SKIP 0 /* 1: a party may skip views */
#endif
#ifndef SINCE_ALWAYS
#define SINCE_ALWAYS 0 /* 1: every view counts as an owner change of every piece */
#endif
#ifndef ATTEMPTS
#define ATTEMPTS 1 /* attempts of an atomic tensor; 1: the tensor is not atomic */
#endif
#ifndef CREDIT
#define CREDIT 0 /* pieces a worker may have between push and answer; 0: no limit */
#endif
#ifndef CAPACITY
#define CAPACITY 6 /* messages in one direction of a connection */
#endif
#ifndef COUPLED
#define COUPLED 0 /* 1: views come from the control plane, see coupled.pml */
#endif
#ifndef MUTANT
#define MUTANT 0
#endif

#ifndef EPOCHS
#define EPOCHS (1 + WCRASH + SCRASH + WFALSE + SFALSE + MOVES + LEAVES + JOIN + SERVER_JOIN)
#endif
#define ERRORS (ABORTS > 0 || HANGS > 0)
#define PUSH_LATER (DELAY || CREDIT > 0 || HANGS > 0)

/* The rounds of a piece, attempts included, are numbered by one counter, the key. All workers see
 * the same receipts, so they count alike. One more key: the round that nobody begins. */
#define KEYS (NR * ATTEMPTS + 1)

/* Workers differ by nothing but their number, so only the first few need to be picked by faults:
 * any other choice is the same history with the names exchanged. The joiner is different. */
#define FAULTY_WORKERS (WCRASH + WFALSE + LOSSES + ABORTS + HANGS + LEAVES)
#if JOIN || FAULTY_WORKERS > NW
#define WORKERS_PICKED NW
#else
#define WORKERS_PICKED FAULTY_WORKERS
#endif
