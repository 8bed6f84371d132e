/* The coordinator, as far as the data plane sees it: a total order of views. Each view changes one
 * thing; parties that skip views see several changes at once. A suspicion may be wrong.
 */
#define LIVE_IN(e, w) (HAS(view_workers[e], w) && worker_status[w] == LIVE)
#define UP_IN(e, s) (HAS(view_shards[e], s) && shard_status[s] == UP)

/* Somebody must be left to go on (rule 14 ends the job otherwise). */
#if NW == 2
#define ANOTHER_WORKER(w) LIVE_IN(newest, 1 - (w))
#elif NW == 3
#define ANOTHER_WORKER(w)                            \
  (LIVE_IN(newest, ((w) + 1) % 3) || LIVE_IN(newest, ((w) + 2) % 3))
#else
#define ANOTHER_WORKER(w) false
#endif
#if NS == 2
#define ANOTHER_SHARD(s) UP_IN(newest, 1 - (s))
#define REPLACEMENT(s) (1 - (s))
#elif NS == 3
#define ANOTHER_SHARD(s) (UP_IN(newest, ((s) + 1) % 3) || UP_IN(newest, ((s) + 2) % 3))
#define REPLACEMENT(s) (HAS(view_shards[newest], ((s) + 1) % 3) -> ((s) + 1) % 3 : ((s) + 2) % 3)
#endif

inline begin_view() {
  view_workers[newest + 1] = view_workers[newest];
  view_shards[newest + 1] = view_shards[newest];
  view_generation[newest + 1] = view_generation[newest];
  for (i_p : 0 .. NP - 1) {
    OWNER(newest + 1, i_p) = OWNER(newest, i_p);
    SINCE(newest + 1, i_p) = (SINCE_ALWAYS -> newest + 1 : SINCE(newest, i_p))
  }
}

inline propose_without_worker(w) {
  begin_view();
  view_workers[newest + 1] = view_workers[newest] & ~BIT(w)
}

inline propose_without_shard(s) {
  begin_view();
  view_shards[newest + 1] = view_shards[newest] & ~BIT(s);
  for (i_p : 0 .. NP - 1) {
    if
    :: OWNER(newest, i_p) == s ->
       OWNER(newest + 1, i_p) = REPLACEMENT(s);
       SINCE(newest + 1, i_p) = newest + 1
    :: else
    fi
  }
}

inline propose_move(p, s) {
  begin_view();
  OWNER(newest + 1, p) = s;
  SINCE(newest + 1, p) = newest + 1
}

inline propose_server(s) {
  begin_view();
  view_shards[newest + 1] = view_shards[newest] | BIT(s)
}

inline propose_generation() {
  begin_view();
  view_workers[newest + 1] = view_workers[newest] | BIT(NW - 1);
  view_generation[newest + 1] = 1;
  for (i_p : 0 .. NP - 1) { SINCE(newest + 1, i_p) = newest + 1 }
}

/* An evicted worker is nobody's peer any more. One that left in order still is: what it handed over
 * must be what the others get. */
inline commit() {
  for (i_w : 0 .. NW - 1) {
    if
    :: HAS(view_workers[newest], i_w) && !HAS(view_workers[newest + 1], i_w) &&
       worker_status[i_w] != LEFT ->
       forget_acceptances(i_w)
    :: else
    fi
  }
  if
  :: view_generation[newest + 1] != view_generation[newest] ->
     for (i_k : 0 .. NP * (KEYS + 1) - 1) {
       accepted[i_k] = NOTHING;
       accepted_by[i_k] = 0
     }
  :: else
  fi;
  newest++;
  printf("C commits e%d: workers %d shards %d owner of p0 S%d generation %d\n", newest,
         view_workers[newest], view_shards[newest], OWNER(newest, 0), view_generation[newest])
}

#define IS_SYNCED(w) (!HAS(view_workers[newest], w) || synced[w])
#if NW == 2
#define ALL_SYNCED (IS_SYNCED(0) && IS_SYNCED(1))
#else
#define ALL_SYNCED (IS_SYNCED(0) && IS_SYNCED(1) && IS_SYNCED(2))
#endif
